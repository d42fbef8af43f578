// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <climits>

#include "cuda/device_array.cuh"
#include "strata/util/random.hpp"

namespace strata::partition {

/// Threads that work on one node together: a warp, or a whole block for nodes of many neighbors.
struct WarpGroup {
  static constexpr int kSize = cuda::kWarp;
  __device__ int rank() const { return static_cast<int>(cuda::lane_index()); }
  __device__ void sync() const { __syncwarp(); }
};
struct BlockGroup {
  static constexpr int kSize = cuda::kThreads;
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ void sync() const { __syncthreads(); }
};

/// The best value of the threads of a group, returned to all of them. T has better_than().
template <typename T>
__device__ T best_of(WarpGroup, T mine) {
  for (int distance = cuda::kWarp / 2; distance > 0; distance /= 2) {
    const T other = mine.from_lane(distance);
    if (other.better_than(mine)) mine = other;
  }
  return mine;
}
template <typename T>
__device__ T best_of(BlockGroup, T mine) {
  __shared__ T of_warp[cuda::kWarpsPerBlock];
  mine = best_of(WarpGroup{}, mine);
  __syncthreads();  // an earlier use may still be read
  if (cuda::lane_index() == 0) of_warp[threadIdx.x / cuda::kWarp] = mine;
  __syncthreads();
  for (int warp = 0; warp < cuda::kWarpsPerBlock; ++warp)
    if (of_warp[warp].better_than(mine)) mine = of_warp[warp];
  return mine;
}

/// A key that most weight may lead to. Trivial, because it lies in shared memory, too.
struct Candidate {
  Count sum;
  std::uint32_t coin;  ///< between equal sums the larger one wins
  std::int32_t key;

  __device__ static Candidate none() { return {0, 0, -1}; }

  __device__ bool better_than(const Candidate& other) const {
    return sum > other.sum || (sum == other.sum && coin > other.coin);
  }
  __device__ Candidate from_lane(int distance) const {
    return {__shfl_xor_sync(cuda::kAllLanes, sum, distance), __shfl_xor_sync(cuda::kAllLanes, coin, distance),
            __shfl_xor_sync(cuda::kAllLanes, key, distance)};
  }
};

__device__ inline Count add_up(Count mine) {
  for (int distance = cuda::kWarp / 2; distance > 0; distance /= 2)
    mine += __shfl_xor_sync(cuda::kAllLanes, mine, distance);
  return mine;
}
__device__ inline Count add_up(WarpGroup, Count mine) { return add_up(mine); }
__device__ inline Count add_up(BlockGroup, Count mine) {
  __shared__ Count of_warp[cuda::kWarpsPerBlock];
  mine = add_up(mine);
  __syncthreads();  // an earlier use may still be read
  if (cuda::lane_index() == 0) of_warp[threadIdx.x / cuda::kWarp] = mine;
  __syncthreads();
  Count sum = 0;
  for (int warp = 0; warp < cuda::kWarpsPerBlock; ++warp) sum += of_warp[warp];
  return sum;
}

/// Sums of edge weights by key, for the neighbors of one node at a time. A view of memory that belongs to a
/// group of threads.
struct DeviceSums {
  std::int32_t* keys;
  std::int32_t* firsts;  ///< where in the list a key comes first
  unsigned long long* sums;
  std::uint32_t capacity;  ///< a power of two
  std::uint32_t mask = 0;

  static constexpr std::uint32_t kLeastSlots = 32;

  __host__ __device__ static std::uint32_t slots_for(Count distinct) {
    std::uint32_t slots = kLeastSlots;
    while (slots < 2 * static_cast<std::uint64_t>(distinct)) slots *= 2;
    return slots;
  }

  /// Makes room for `distinct` keys, forgetting all sums. All threads of the group call it.
  template <typename Group>
  __device__ void reset(Group group, Count distinct) {
    const std::uint32_t slots = slots_for(distinct);
    mask = slots - 1;
    group.sync();
    for (std::uint32_t i = static_cast<std::uint32_t>(group.rank()); i < slots; i += Group::kSize) {
      keys[i] = -1;
      firsts[i] = INT_MAX;
      sums[i] = 0;
    }
    group.sync();
  }
  __device__ void add(std::int32_t key, Count amount, std::int32_t place) {
    std::uint32_t slot = mix32(static_cast<std::uint32_t>(key)) & mask;
    while (true) {
      const std::int32_t there = atomicCAS(&keys[slot], -1, key);
      if (there == -1 || there == key) break;
      slot = (slot + 1) & mask;
    }
    atomicAdd(&sums[slot], static_cast<unsigned long long>(amount));
    atomicMin(&firsts[slot], place);
  }
  /// Calls visit(key, sum, place of the first one) for this thread's share of the keys. REQUIRES: the group
  /// has met since the last add().
  template <typename Group, typename Visit>
  __device__ void visit(Group group, Visit visit) const {
    for (std::uint32_t i = static_cast<std::uint32_t>(group.rank()); i <= mask; i += Group::kSize)
      if (keys[i] >= 0) visit(keys[i], static_cast<Count>(sums[i]), firsts[i]);
  }
};

}  // namespace strata::partition
