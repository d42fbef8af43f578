// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention.hpp"
#include "kernels/lanes.cuh"

/// What the kernels of attention share: groups of threads that each have a head of a row, and its list of edges.
namespace strata::nn {

constexpr int kBlockThreads = 256;
constexpr Count kLongList = 64;  // edges from which on a whole block sums a list

inline unsigned grid_for(Count threads) {
  return static_cast<unsigned>((threads + kBlockThreads - 1) / kBlockThreads);
}

__device__ inline Count thread_index() {
  return static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x;
}

/// The work of a group of Lanes threads: one head of one row, and a window [first, first + Lanes * Width)
/// of its columns. Each thread has Width columns.
template <int Width, int Lanes>
struct Item {
  Count row, head, column;  ///< column: this thread's first column of the head
  bool first_window, in_row;

  template <typename Over>
  __device__ explicit Item(const Over& over) : Item(over, thread_index() / Lanes) {}
  template <typename Over>
  __device__ Item(const Over& over, Count group) {
    const Count windows = (over.head_cols + Lanes * Width - 1) / (Lanes * Width), window = group % windows;
    row = group / windows / over.heads;
    head = group / windows % over.heads;
    column = (window * Lanes + threadIdx.x % Lanes) * Width;
    first_window = window == 0;
    in_row = column < over.head_cols;
  }
  template <typename Over>
  __device__ Count offset(const Over& over, Count r) const {
    return r * over.cols() + head * over.head_cols;
  }
  template <typename Over, typename T>
  __device__ Floats<Width> load(const Over& over, const T* rows, Count r) const {
    return in_row ? load_as_f32<Width>(rows + offset(over, r) + column) : Floats<Width>::filled(0.0f);
  }
  __device__ bool leads() const { return first_window && threadIdx.x % Lanes == 0; }
};

template <int Width, int Lanes, typename Over>
Count threads_of(const Over& over, Count rows) {
  return rows * over.heads * ((over.head_cols + Lanes * Width - 1) / (Lanes * Width)) * Lanes;
}

/// The dot product of a head's columns of two rows, with the same bits in every thread of the group. Whole: a
/// single window holds all columns, which the threads have already loaded.
template <int Width, int Lanes, bool Whole, typename Over, typename T>
__device__ inline float head_dot(const Over& over, const T* a, const T* b, const Floats<Width>& part_of_a,
                                 const Floats<Width>& part_of_b) {
  float sum = 0.0f;
  if constexpr (Whole) {
    sum = dot(part_of_a, part_of_b, sum);
  } else {
    for (Count c = threadIdx.x % Lanes * Width; c < over.head_cols; c += Lanes * Width)
      sum = dot(load_as_f32<Width>(a + c), load_as_f32<Width>(b + c), sum);
  }
  return sum_of_group<Lanes>(sum);
}

/// Calls finish(item, sum_of(item, begin, end)) with the list of each group's row. With `splits`, a list of more than
/// kLongList edges is cut into a piece for each group of the block, whose sums are added in order: of some nodes
/// that are neighbors of many, a single group would finish long after all others. Whole blocks call it, once.
template <typename ItemOf, int Lanes, bool MaySplit, typename Over, typename SumOf, typename Finish>
__device__ inline void sum_lists(const Over& over, const EdgeLists& lists, bool splits, const SumOf& sum_of,
                                 const Finish& finish) {
  const ItemOf item(over);
  const bool exists = item.row < lists.rows;
  const Count begin = exists ? __ldg(lists.indptr + item.row) : 0,
              end = exists ? __ldg(lists.indptr + item.row + 1) : 0;
  const bool is_long = MaySplit && splits && end - begin > kLongList;
  if (exists && !is_long) finish(item, sum_of(item, begin, end));
  if constexpr (MaySplit) {
    using Total = decltype(sum_of(item, begin, end));
    constexpr int kGroups = kBlockThreads / Lanes;
    __shared__ Total parts[kBlockThreads];
    if (!__syncthreads_or(is_long)) return;
    const Count first_group = static_cast<Count>(blockIdx.x) * kGroups, mine = threadIdx.x / Lanes;
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
      const ItemOf shared(over, first_group + group);
      if (shared.row >= lists.rows) break;
      const Count from = __ldg(lists.indptr + shared.row),
                  count = __ldg(lists.indptr + shared.row + 1) - from;
      if (count <= kLongList) continue;
      parts[threadIdx.x] = sum_of(shared, from + count * mine / kGroups, from + count * (mine + 1) / kGroups);
      __syncthreads();
      if (mine == group) {
        Total total = parts[threadIdx.x % Lanes];
#pragma unroll 1
        for (int other = 1; other < kGroups; ++other) total.add(parts[other * Lanes + threadIdx.x % Lanes]);
        finish(shared, total);
      }
      __syncthreads();
    }
  }
}

// Not inlined, because the registers of Philox would halve the number of threads where nothing is dropped.
static __noinline__ __device__ float kept_scale_of(const EdgeDropout& dropout, const Philox4& key, Count u,
                                                   Count head, float scale) {
  return keeps_edge(dropout, key, u, static_cast<std::uint32_t>(head)) ? scale : 0.0f;
}
template <typename Over>
__device__ inline float kept_scale(const Over& over, const Philox4& key, Count u, Count head, float scale) {
  if (!over.dropout.active()) return 1.0f;
  return kept_scale_of(over.dropout, key, u, head, scale);
}
template <typename Over>
__device__ inline Philox4 key_of(const Over& over, Count v) {
  return over.dropout.active() ? edge_key(over.dropout, v) : Philox4{};
}

}  // namespace strata::nn
