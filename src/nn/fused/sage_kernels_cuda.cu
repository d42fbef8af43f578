// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "fused/sage_kernels.hpp"
#include "kernels/dropout.cuh"
#include "kernels/warp_columns.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kThreads = 256;

struct List {
  Count begin = 0;
  Count size = 0;

  __device__ List from_lane(int source) const {
    return {__shfl_sync(kAllLanes, begin, source), __shfl_sync(kAllLanes, size, source)};
  }
};

__device__ inline Count size_of(const InEdges& edges, Count i) {
  return edges.indptr == nullptr ? edges.counts[i] : edges.indptr[i + 1] - edges.indptr[i];
}

__device__ inline List list_of(const InEdges& edges, Count i) {
  return {edges.indptr == nullptr ? i * edges.stride : edges.indptr[i], size_of(edges, i)};
}

/// The keyed words of a row's node, from which the dropout of HiddenRows draws.
__device__ inline Philox4 row_words(const HiddenRows& hidden, Count row) {
  return hidden.dropout.active() ? hidden.dropout.words(RandomUse::dropout, row) : Philox4{};
}

__device__ inline Philox4 from_lane(const Philox4& words, int source) {
  Philox4 result;
#pragma unroll
  for (int w = 0; w < 4; ++w) result.word[w] = __shfl_sync(kAllLanes, words.word[w], source);
  return result;
}

/// Whether a lane's columns are consecutive.
template <typename Part>
constexpr bool kIsOnePack = Part::kPackSize == Part::kSize;

/// Index of a lane's column i among the eight columns that share words.
template <typename Part>
__device__ int column_of(Count base, int i) {
  if constexpr (!kIsOnePack<Part>) return static_cast<int>(Part::column(base, i) % kColumnsPerWords);
  if constexpr (Part::kSize % kColumnsPerWords == 0) return i % kColumnsPerWords;  // a constant
  return (lane() * Part::kSize + i) % kColumnsPerWords;
}

/// Calls visit(i, kept) for every column i of the lane.
template <typename Part, typename Visit>
__device__ void for_kept(const DropoutRule& rule, const Philox4& row, Count base, const Visit& visit) {
  Philox4 words{};
#pragma unroll
  for (int i = 0; i < Part::kSize; ++i) {
    if (rule.active() && (!kIsOnePack<Part> || i % kColumnsPerWords == 0))
      words = dropout_words(row, static_cast<std::uint32_t>(Part::column(base, i) / kColumnsPerWords));
    visit(i, !rule.active() || keeps(words, column_of<Part>(base, i), rule.threshold));
  }
}

/// Applies ReLU and dropout to a hidden row.
template <int N, int kPack>
__device__ void activate(Columns<N, kPack>& part, const HiddenRows& hidden, const Philox4& row, Count base,
                         float scale) {
  if (hidden.relu) {
#pragma unroll
    for (int i = 0; i < N; ++i) part.value[i] = part.value[i] < 0.0f ? 0.0f : part.value[i];
  }
  if (!hidden.dropout.active()) return;
  for_kept<Columns<N, kPack>>(hidden.dropout, row, base,
                              [&](int i, bool kept) { part.value[i] = kept ? part.value[i] * scale : 0.0f; });
}

/// Up to 32 entries of a list, one per lane, which are loaded ahead of their rows.
struct Entries {
  std::int32_t index = 0;
  float weight = 1.0f;
  Philox4 words{};  // of hidden rows
};

__device__ inline int at_most_a_warp(Count size) {
  return static_cast<int>(min(static_cast<Count>(kWarp), size));
}

// The most rows of a MeanConcat per warp. Their lists are loaded together, and a row's entries while the
// previous row is summed. If there are few rows, it is better to spread them over more warps.
constexpr int kMostRowsOfWarp = 4;
constexpr Count kManyWarps = 1 << 14;

template <typename In, typename Out, int N, int kPack, bool kHidden>
struct ConcatWarp {
  using Part = Columns<N, kPack>;
  // Rows in flight: up to 128 bytes per lane.
  static constexpr int kInFlight = std::min<int>(8, 128 / (N * static_cast<int>(sizeof(In))));

  const MeanConcatOf<In, Out>& task;
  float scale;

  __device__ Entries entries(const List& list, Count begin) const {
    Entries result;
    if (begin + lane() >= list.size) return result;
    result.index = task.edges.indices[list.begin + begin + lane()];
    if constexpr (kHidden) result.words = row_words(task.hidden, result.index);
    return result;
  }

  __device__ const In* row_of(Count index) const { return task.in + index * task.in_pitch; }

  __device__ void add_entries(Part& sum, const Entries& entries, int num, Count base) const {
    for (int first = 0; first < num; first += kInFlight) {
      Part parts[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const Count index = __shfl_sync(kAllLanes, entries.index, (first + i) % kWarp);
        if (first + i < num) parts[i] = Part::load_constant(row_of(index), base, task.cols);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if constexpr (kHidden) {
          const Philox4 words = from_lane(entries.words, (first + i) % kWarp);
          if (first + i < num) activate(parts[i], task.hidden, words, base, scale);
        }
        if (first + i < num) sum.add(parts[i], 1.0f);
      }
    }
  }

  __device__ void run(Count row, const List& list, Count own, const Entries& first) const {
    const float inverse = task.mean && list.size > 0 ? 1.0f / static_cast<float>(list.size) : 1.0f;
    Out* out = task.out + row * 2 * task.cols;
    const Philox4 own_words = kHidden && own >= 0 ? row_words(task.hidden, own) : Philox4{};
    for (Count base = 0; base < task.cols; base += Part::kSpan) {
      Part self = Part::zeros();
      if (own >= 0) self = Part::load_constant(row_of(own), base, task.cols);
      Part mean = Part::zeros();
      add_entries(mean, first, at_most_a_warp(list.size), base);
      for (Count begin = kWarp; begin < list.size; begin += kWarp) {
        const Entries more = entries(list, begin);
        add_entries(mean, more, at_most_a_warp(list.size - begin), base);
      }
      mean.multiply(inverse);
      if constexpr (kHidden) activate(self, task.hidden, own_words, base, scale);
      mean.store(out, base, task.cols);
      self.store(out + task.cols, base, task.cols);
    }
  }
};

// The rows of the neighbors, from L2 or HBM, bound the time.
template <typename In, typename Out, int N, int kPack, bool kHidden>
__global__ void __launch_bounds__(kThreads)
    mean_concat_kernel(MeanConcatOf<In, Out> task, float scale, int rows_of_warp) {
  const ConcatWarp<In, Out, N, kPack, kHidden> warp{task, scale};
  const Count first_row = first_warp() * rows_of_warp;
  if (first_row >= task.rows) return;
  const Count mine = first_row + lane();
  const bool holds = lane() < rows_of_warp && mine < task.rows;
  const List lists = holds ? list_of(task.edges, mine) : List{};
  const Count owns = holds && task.own_ids != nullptr ? task.own_ids[mine] : mine;
  List list = lists.from_lane(0);
  Entries entries = warp.entries(list, 0);
  for (int r = 0; r < rows_of_warp && first_row + r < task.rows; ++r) {
    const List next = lists.from_lane(r + 1);  // an empty list after the last row
    const Entries ahead = warp.entries(next, 0);
    warp.run(first_row + r, list, __shfl_sync(kAllLanes, owns, r), entries);
    list = next;
    entries = ahead;
  }
}

/// The warps of a block take consecutive runs of rows of a piece. Their sums of columns are added up in the
/// order of the warps.
template <typename T, int N, int kPack>
struct GatedWarp {
  using Part = Columns<N, kPack>;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kRows = static_cast<int>(GatedMeanGradOf<T>::kRowsOfPiece) / kWarps;
  static constexpr int kInFlight = 2;  // most nodes have one or two out-edges

  const GatedMeanGradOf<T>& task;
  float scale;

  __device__ Entries entries(Count begin, Count end) const {
    Entries result;
    if (begin + lane() >= end) return result;
    result.index = task.transposed_indices[begin + lane()];
    if (task.mean) result.weight = 1.0f / static_cast<float>(size_of(task.edges, result.index));
    return result;
  }

  __device__ void add_entries(Part& sum, const Entries& entries, int from, int to, Count base) const {
    for (int first = from; first < to; first += kInFlight) {
      Part parts[kInFlight];
      float weights[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int source = (first + i) % kWarp;
        const Count index = __shfl_sync(kAllLanes, entries.index, source);
        weights[i] = __shfl_sync(kAllLanes, entries.weight, source);
        if (first + i < to)
          parts[i] = Part::load_constant(task.grad + index * 2 * task.cols, base, task.cols);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i < to) sum.add(parts[i], weights[i]);
      }
    }
  }

  /// Sets to zero what ReLU and dropout did not let pass.
  __device__ void gate(Part& sum, const Part& product, Count row, Count base) const {
    const HiddenRows& hidden = task.hidden;
    for_kept<Part>(hidden.dropout, row_words(hidden, row), base, [&](int i, bool kept) {
      const bool passed = kept && (!hidden.relu || product.value[i] > 0.0f);
      sum.value[i] = passed ? sum.value[i] * scale : 0.0f;
    });
  }

  /// `known` are the entries of the out-edges [known_begin, known_begin + 32).
  __device__ Part gradient(Count row, Count begin, Count end, const Entries& known, Count known_begin,
                           Count base) const {
    const bool gates = task.product != nullptr;
    Part product = Part::zeros();
    if (gates) product = Part::load_constant(task.product + row * task.cols, base, task.cols);
    Part own = Part::zeros();
    if (row < task.num_dst) own = Part::load_constant(task.grad + (2 * row + 1) * task.cols, base, task.cols);
    Part sum = Part::zeros();
    if (end <= known_begin + static_cast<Count>(kWarp)) {
      add_entries(sum, known, static_cast<int>(begin - known_begin), static_cast<int>(end - known_begin),
                  base);
    } else {
      for (; begin < end; begin += kWarp) {
        const Entries more = entries(begin, end);
        add_entries(sum, more, 0, at_most_a_warp(end - begin), base);
      }
    }
    sum.add(own, 1.0f);
    if (gates) gate(sum, product, row, base);
    return sum;
  }

  /// The sum of the gradients of rows [first, first + kRows), which it writes.
  __device__ Part run(Count first, Count base) const {
    Part total = Part::zeros();
    const int num = static_cast<int>(min(static_cast<Count>(kRows), task.rows - first));
    if (num <= 0) return total;
    const Count pointers = lane() <= num ? task.transposed_indptr[first + lane()] : 0;
    const Count known_begin = __shfl_sync(kAllLanes, pointers, 0);
    const Entries known = entries(known_begin, __shfl_sync(kAllLanes, pointers, num));
    for (int r = 0; r < num; ++r) {
      const Part sum = gradient(first + r, __shfl_sync(kAllLanes, pointers, r),
                                __shfl_sync(kAllLanes, pointers, r + 1), known, known_begin, base);
      sum.store(task.out + (first + r) * task.cols, base, task.cols);
      total.add(sum, 1.0f);
    }
    return total;
  }
};

template <typename T, int N, int kPack>
__global__ void __launch_bounds__(kThreads) gated_mean_grad_kernel(GatedMeanGradOf<T> task, float scale) {
  using Warp = GatedWarp<T, N, kPack>;
  using Part = typename Warp::Part;
  __shared__ float sums[Warp::kWarps][Part::kSpan];
  const Warp warp{task, scale};
  const int me = static_cast<int>(threadIdx.x / kWarp);
  const Count first = static_cast<Count>(blockIdx.x) * task.kRowsOfPiece + me * Warp::kRows;
  for (Count base = 0; base < task.cols; base += Part::kSpan) {
    const Part total = warp.run(first, base);
    if (task.piece_sums == nullptr) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) sums[me][Part::column(0, i)] = total.value[i];
    __syncthreads();
    for (Count c = threadIdx.x; c < Part::kSpan && base + c < task.cols; c += kThreads) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < Warp::kWarps; ++w) sum += sums[w][c];
      task.piece_sums[blockIdx.x * task.cols + base + c] = sum;
    }
    __syncthreads();
  }
}

unsigned blocks_for(Count items, Count of_block) {
  return static_cast<unsigned>(std::max<Count>(1, (items + of_block - 1) / of_block));
}

template <typename In, typename Out, int N, int kPack>
void launch_concat(const MeanConcatOf<In, Out>& task, cudaStream_t stream) {
  const int rows_of_warp = static_cast<int>(std::clamp<Count>(task.rows / kManyWarps, 1, kMostRowsOfWarp));
  const unsigned blocks = blocks_for(task.rows, rows_of_warp * static_cast<Count>(kThreads / kWarp));
  const float scale = task.hidden.dropout.scale();
  if (task.hidden.relu || task.hidden.dropout.active())
    mean_concat_kernel<In, Out, N, kPack, true><<<blocks, kThreads, 0, stream>>>(task, scale, rows_of_warp);
  else
    mean_concat_kernel<In, Out, N, kPack, false><<<blocks, kThreads, 0, stream>>>(task, scale, rows_of_warp);
  cuda::check_launch("mean_concat");
}

template <typename T, int N, int kPack>
void launch_gated(const GatedMeanGradOf<T>& task, cudaStream_t stream) {
  gated_mean_grad_kernel<T, N, kPack>
      <<<static_cast<unsigned>(task.num_pieces()), kThreads, 0, stream>>>(task, task.hidden.dropout.scale());
  cuda::check_launch("gated_mean_grad");
}

/// Whether lanes may take `width` neighboring columns.
template <typename... Elements>
bool packs(int width, Count cols, const Elements*... rows) {
  return cols % width == 0 &&
         (... && (reinterpret_cast<std::uintptr_t>(rows) %
                      std::min<std::size_t>(16, static_cast<std::size_t>(width) * sizeof(Elements)) ==
                  0));
}

}  // namespace

template <typename In, typename Out>
void mean_concat(const MeanConcatOf<In, Out>& task, CUstream_st* stream) {
  if (task.rows == 0) return;
  constexpr Count kOfFour = 4 * kWarp;
  const auto packed = [&](int width) {
    return task.in_pitch % width == 0 && packs(width, task.cols, task.in, task.out);
  };
  if (task.cols > kOfFour && packed(8))
    launch_concat<In, Out, 8, 8>(task, stream);
  else if (packed(4))
    launch_concat<In, Out, 4, 4>(task, stream);
  else
    launch_concat<In, Out, 4, 1>(task, stream);
}

template <typename T>
void gated_mean_grad(const GatedMeanGradOf<T>& task, CUstream_st* stream) {
  if (task.rows == 0) return;
  constexpr Count kOfFour = 4 * kWarp;
  const auto packed = [&](int width) { return packs(width, task.cols, task.grad, task.product, task.out); };
  if (task.cols > kOfFour && packed(8))
    launch_gated<T, 8, 8>(task, stream);
  else if (packed(4))
    launch_gated<T, 4, 4>(task, stream);
  else
    launch_gated<T, 4, 1>(task, stream);
}

template void mean_concat(const MeanConcatOf<float, float>&, CUstream_st*);
template void mean_concat(const MeanConcatOf<float, Bf16>&, CUstream_st*);
template void mean_concat(const MeanConcatOf<Bf16, Bf16>&, CUstream_st*);
template void gated_mean_grad(const GatedMeanGradOf<float>&, CUstream_st*);
template void gated_mean_grad(const GatedMeanGradOf<Bf16>&, CUstream_st*);

}  // namespace strata::nn
