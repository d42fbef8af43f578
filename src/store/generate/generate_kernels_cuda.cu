// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "generate/generate_kernels.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/stream.hpp"

namespace strata::store {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr Count kMostBlocks = 132 * 16;  // two waves of eight resident blocks per SM of an H200

unsigned blocks_for(Count threads) {
  return static_cast<unsigned>(std::clamp<Count>((threads + kThreads - 1) / kThreads, 1, kMostBlocks));
}

__device__ Count first_thread() { return static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ Count num_threads() { return static_cast<Count>(gridDim.x) * blockDim.x; }

__device__ Count max_over_lanes_up_to_this(Count value) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const Count below = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(distance));
    if (lane >= distance) value = max(value, below);
  }
  return value;
}

/// One entry of a list, as a lane of the warp sees it.
struct Entry {
  bool exists;  ///< the last lanes of a list's last round have none
  NodeId neighbor;
  bool self_loop, duplicate;

  __device__ bool dropped(const ListTask& task) const {
    return (self_loop && task.drop_self_loops) || (duplicate && task.drop_duplicates);
  }
};

// One warp per list, 32 entries per round. The prefix maximum of SkewedList is a scan over the lanes, with a
// carry from round to round. All lanes call `visit(entry)` together.
template <typename Visit>
__device__ void walk_list(const ListTask& task, Count list_index, Visit&& visit) {
  const Count first = task.offsets[list_index], size = task.offsets[list_index + 1] - first;
  const graph::SkewedList list(task.words, task.num_nodes, first, size);
  const NodeId node = task.first_node + list_index, last_node = task.num_nodes - 1;
  const Count lane = threadIdx.x % kWarp;
  Count highest = 0;     // of requested(i) - i so far; entry 0 asks for 0 at least
  NodeId previous = -1;  // the last neighbor of the previous round
  for (Count round = 0; round < size; round += kWarp) {
    const Count entry = round + lane;
    const bool exists = entry < size;
    highest = max(highest, max_over_lanes_up_to_this(exists ? list.requested(entry) - entry : 0));
    const NodeId neighbor = min(entry + highest, last_node);
    const NodeId below = __shfl_up_sync(kAllLanes, neighbor, 1);
    visit(Entry{.exists = exists,
                .neighbor = neighbor,
                .self_loop = exists && neighbor == node,
                .duplicate = exists && neighbor == (lane == 0 ? previous : below)});
    highest = __shfl_sync(kAllLanes, highest, kWarp - 1);
    previous = __shfl_sync(kAllLanes, neighbor, kWarp - 1);
  }
}

/// A whole warp calls body(list) for each list.
template <typename Body>
__device__ void for_each_list(Count num_lists, Body&& body) {
  for (Count list = first_thread() / kWarp; list < num_lists; list += num_threads() / kWarp) body(list);
}

// Reads two offsets per list and writes almost nothing, so arithmetic is the limit. 1.6 G entries take about
// 50 ms.
__global__ void __launch_bounds__(kThreads) count_kernel(ListTask task, Count* dropped, Count* kept) {
  const bool first_lane = threadIdx.x % kWarp == 0;
  Count sum = 0;  // of this warp, the same in all lanes
  for_each_list(task.num_lists, [&](Count list) {
    Count here = 0;
    walk_list(task, list,
              [&](const Entry& entry) { here += __popc(__ballot_sync(kAllLanes, entry.dropped(task))); });
    if (kept != nullptr && first_lane) kept[list] = task.offsets[list + 1] - task.offsets[list] - here;
    sum += here;
  });
  if (first_lane && sum > 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(dropped), static_cast<unsigned long long>(sum));
}

// Like count_kernel, and writes one id per entry, in runs: 4 or 8 bytes per edge.
template <typename Id>
__global__ void __launch_bounds__(kThreads) write_kernel(ListTask task, const Count* begins, Id* out) {
  const unsigned lanes_below = (1u << (threadIdx.x % kWarp)) - 1u;
  for_each_list(task.num_lists, [&](Count list) {
    Count place = begins[list] - begins[0];
    walk_list(task, list, [&](const Entry& entry) {
      const bool stays = entry.exists && !entry.dropped(task);
      const unsigned staying = __ballot_sync(kAllLanes, stays);
      if (stays) out[place + __popc(staying & lanes_below)] = static_cast<Id>(entry.neighbor);
      place += __popc(staying);
    });
  });
}

__device__ float stored(float value, const float*) { return value; }
__device__ __half stored(float value, const __half*) { return __float2half_rn(value); }
__device__ __nv_bfloat16 stored(float value, const __nv_bfloat16*) { return __float2bfloat16_rn(value); }
__device__ float to_float(float value) { return value; }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ T to_stored(float value) {
  return stored(value, static_cast<const T*>(nullptr));
}

/// A feature as a table of type Made stores it.
template <typename Made>
struct MadeValue {
  graph::FeatureFormula formula;
  NodeId first_node;
  const std::int32_t* labels;

  __device__ float operator()(Count row, Count col) const {
    const std::int32_t label = formula.class_means == nullptr ? 0 : labels[row];
    return to_float(to_stored<Made>(formula(first_node + row, col, label)));
  }
};

/// As graph::generate() normalizes rows with ReadOptions::normalize_features.
template <typename Value>
struct Normalized {
  Value value;
  const double* sums;

  __device__ float operator()(Count row, Count col) const {
    const double sum = sums[row], scale = sum > 0 ? 1 / sum : 0;
    return static_cast<float>(static_cast<double>(value(row, col)) * scale);
  }
};

/// As normalize_rows() normalizes rows.
template <typename Value>
struct RowNormalized {
  Value value;
  const double* sums;

  __device__ float operator()(Count row, Count col) const {
    const double sum = sums[row];
    const float here = value(row, col);
    return sum == 0 ? here : static_cast<float>(static_cast<double>(here) / sum);
  }
};

// One thread per row, because the sum must be taken in the order of the columns.
template <typename Value>
__global__ void __launch_bounds__(kThreads) sum_kernel(Value value, Count rows, Count cols, double* sums) {
  for (Count row = first_thread(); row < rows; row += num_threads()) {
    double sum = 0;
    for (Count col = 0; col < cols; ++col) sum += fabs(static_cast<double>(value(row, col)));
    sums[row] = sum;
  }
}

// One thread per element: about 40 integer instructions and one store. 14 G elements (papers100M) take 50 ms.
template <typename Out, typename Value>
__global__ void __launch_bounds__(kThreads)
    write_features_kernel(Value value, std::uint32_t elements, std::uint32_t cols, Out* out) {
  for (Count i = first_thread(); i < elements; i += num_threads()) {
    const std::uint32_t row = static_cast<std::uint32_t>(i) / cols,
                        col = static_cast<std::uint32_t>(i) - row * cols;
    out[i] = to_stored<Out>(value(row, col));
  }
}

/// Launches for one table.
struct FeatureLauncher {
  const FeatureTask& task;
  cudaStream_t stream;

  template <typename Value>
  const double* sums_of(const Value& value, int which) const {
    double* const sums = task.row_sums + which * task.rows;
    sum_kernel<<<blocks_for(task.rows), kThreads, 0, stream>>>(value, task.rows, task.formula.cols, sums);
    cuda::check_launch("sum_kernel");
    return sums;
  }

  template <typename Out, typename Value>
  void write(const Value& value, void* out) const {
    const Count elements = task.rows * task.formula.cols;
    write_features_kernel<<<blocks_for(elements), kThreads, 0, stream>>>(
        value, static_cast<std::uint32_t>(elements), static_cast<std::uint32_t>(task.formula.cols),
        static_cast<Out*>(out));
    cuda::check_launch("write_features_kernel");
  }

  template <typename Out, typename Value>
  void finish(const Value& value, void* out) const {
    if (!task.row_normalize) return write<Out>(value, out);
    write<Out>(RowNormalized<Value>{value, sums_of(value, 1)}, out);
  }

  template <typename Made>
  void run(void* out) const {
    const MadeValue<Made> made{task.formula, task.first_node, task.labels};
    if (!task.normalize) return finish<Made>(made, out);
    finish<float>(Normalized<MadeValue<Made>>{made, sums_of(made, 0)}, out);
  }
};

}  // namespace

void count_entries(const ListTask& task, Count* dropped, Count* kept, const cuda::Stream& stream) {
  if (task.num_lists == 0) return;
  count_kernel<<<blocks_for(task.num_lists * kWarp), kThreads, 0, stream.get()>>>(task, dropped, kept);
  cuda::check_launch("count_kernel");
}

void write_lists(const ListTask& task, const ListOutput& output, const cuda::Stream& stream) {
  if (task.num_lists == 0) return;
  const auto launch = [&](auto* out) {
    write_kernel<<<blocks_for(task.num_lists * kWarp), kThreads, 0, stream.get()>>>(task, output.begins, out);
    cuda::check_launch("write_kernel");
  };
  if (output.wide)
    launch(static_cast<std::int64_t*>(output.out));
  else
    launch(static_cast<std::int32_t*>(output.out));
}

void write_features(const FeatureTask& task, void* out, const cuda::Stream& stream) {
  if (task.rows == 0 || task.formula.cols == 0) return;
  const FeatureLauncher launcher{task, stream.get()};
  if (task.made_as == DType::f32)
    launcher.run<float>(out);
  else if (task.made_as == DType::f16)
    launcher.run<__half>(out);
  else
    launcher.run<__nv_bfloat16>(out);
}

}  // namespace strata::store
