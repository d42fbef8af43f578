// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "choosers/choice_rules.hpp"
#include "choosers/lists_cuda.cuh"

/// Weighted sampling without replacement as a race (see arrival()): finds the last arrival that gets a pick.
namespace strata::sampling {

/// A neighbor list whose edges race for picks.
template <typename Weights>
struct Race {
  Weights weights;  // of the list; maybe WeightsWithout excluded entries
  std::uint64_t key;
  std::uint32_t degree;

  __device__ std::uint64_t choice_at(std::uint32_t position) const {
    if constexpr (requires { weights.excluded; })
      return static_cast<std::uint64_t>(weights.excluded.choice_at(position));
    else
      return position;
  }
  __device__ std::uint64_t arrival_of(std::uint32_t position) const {
    if (position >= degree) return kNeverArrives;
    const float weight = weights[position];
    if (!(weight > 0)) return kNeverArrives;
    return arrival(keyed_word(key, choice_at(position)), weight, position);
  }
};

/// The last arrival that gets a pick, and how many picks there are. DeviceRange::key carries it from
/// measure() to choose().
struct Finish {
  std::uint64_t last;
  std::uint32_t count;
};
inline constexpr std::uint64_t kEveryArrival = kNeverArrives - 1;

/// The edges of a stretch of a list.
template <typename Weights>
struct StretchOfRace {
  Race<Weights> race;
  std::uint32_t first, end;

  __device__ std::uint32_t size() const { return end - first; }
  __device__ std::uint64_t operator()(std::uint32_t index) const { return race.arrival_of(first + index); }
};

/// Arrivals in memory.
struct StoredArrivals {
  const std::uint64_t* arrivals;
  std::uint32_t count;

  __device__ std::uint32_t size() const { return count; }
  __device__ std::uint64_t operator()(std::uint32_t index) const { return arrivals[index]; }
};

/// Arrivals of a list of at most kRounds * 32 edges, in the registers of a warp: round r of lane l is
/// position r * 32 + l.
template <int kRounds>
struct WarpRace {
  std::uint64_t arrivals[kRounds];

  template <typename Weights>
  __device__ explicit WarpRace(const Race<Weights>& race) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r)
      arrivals[r] = race.arrival_of(static_cast<std::uint32_t>(r) * kWarp + lane_index());
  }

  __device__ static std::uint32_t order(std::uint64_t arrival) {
    return static_cast<std::uint32_t>(arrival >> 32);
  }
  __device__ std::uint32_t count_up_to(std::uint32_t bound) const {
    std::uint32_t count = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r)
      count += static_cast<std::uint32_t>(__popc(__ballot_sync(kAllLanes, order(arrivals[r]) <= bound)));
    return count;
  }

  __device__ Finish finish(std::uint32_t fanout) const {
    std::uint32_t num_arriving = 0, first = ~0u, last = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const bool arrives = arrivals[r] != kNeverArrives;
      num_arriving += static_cast<std::uint32_t>(__popc(__ballot_sync(kAllLanes, arrives)));
      first = min(first, order(arrivals[r]));
      if (arrives) last = max(last, order(arrivals[r]));
    }
    if (num_arriving <= fanout) return {kEveryArrival, num_arriving};
    return {last_of(fanout, __reduce_min_sync(kAllLanes, first) - 1, __reduce_max_sync(kAllLanes, last)),
            fanout};
  }

 private:
  /// Bisects (low, high] until exactly `fanout` edges arrive up to its middle. REQUIRES: fewer than `fanout`
  /// arrive up to low, and more up to high.
  __device__ std::uint64_t last_of(std::uint32_t fanout, std::uint32_t low, std::uint32_t high) const {
    std::uint32_t up_to_low = 0;
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      const std::uint32_t count = count_up_to(middle);
      if (count == fanout) return (static_cast<std::uint64_t>(middle) << 32) | ~0u;
      if (count < fanout) {
        low = middle;
        up_to_low = count;
      } else {
        high = middle;
      }
    }
    return last_of_equals(high, fanout - up_to_low);
  }

  /// Among equal arrivals those with lower positions come first.
  __device__ std::uint64_t last_of_equals(std::uint32_t equal, std::uint32_t wanted) const {
    std::uint64_t last = 0;
    for (int r = 0; r < kRounds; ++r) {
      unsigned lanes = __ballot_sync(kAllLanes, order(arrivals[r]) == equal);
      const auto count = static_cast<std::uint32_t>(__popc(lanes));
      if (wanted > 0 && wanted <= count) {
        for (std::uint32_t skipped = 1; skipped < wanted; ++skipped) lanes &= lanes - 1;
        last = (static_cast<std::uint64_t>(equal) << 32) |
               static_cast<std::uint32_t>(r * kWarp + __ffs(static_cast<int>(lanes)) - 1);
        wanted = 0;
      }
      wanted -= min(wanted, count);
    }
    return last;
  }
};

/// Finds the finish of a long list by a radix select over its arrivals. Each pass counts 12 bits and keeps
/// the arrivals that share the bits of the wanted one, until few are left. Two passes over the list are
/// usual, because the first bits leave about an eighth of `fanout` edges.
///
/// `Source` has at most size() arrivals; operator()(index) returns one, or kNeverArrives.
struct BlockRaceMemory {
  std::uint32_t histogram[1 << 12];
  std::uint64_t candidates[1 << 10];
  std::uint32_t warp_sums[kWarpsPerBlock];
  std::uint32_t bin, before_bin, bin_count;
  std::uint64_t last;
  std::uint32_t num_candidates;  // apart from the bin, which is read as a vector when this is written
};
template <typename Source>
class BlockRace {
 public:
  __device__ BlockRace(const Source& source, BlockRaceMemory& memory) : source_(source), memory_(memory) {}

  __device__ Finish finish(std::uint32_t fanout) {
    std::uint32_t wanted = fanout;
    std::uint64_t prefix = 0;
    for (int shift = 64 - kBits;; shift = max(shift - kBits, 0)) {
      const std::uint32_t num_counted = count(prefix, shift);
      if (shift == 64 - kBits && num_counted <= fanout) return {kEveryArrival, num_counted};
      find_bin(wanted);
      wanted -= memory_.before_bin;
      prefix = (prefix << kBits) | memory_.bin;
      if (memory_.bin_count <= kMostCandidates) return {last_of(prefix, shift, wanted), fanout};
    }
  }

 private:
  static constexpr int kBits = 12;
  static constexpr std::uint32_t kBins = 1u << kBits, kMostCandidates = 1u << 10;

  /// Calls body(arrival) for the edges whose bits from `shift` on equal the prefix.
  template <typename Body>
  __device__ void for_each(std::uint64_t prefix, int shift, Body&& body) const {
    for (std::uint32_t index = threadIdx.x; index < source_.size(); index += kThreads) {
      const std::uint64_t arrival = source_(index);
      if (arrival != kNeverArrives && (shift >= 64 || (arrival >> shift) == prefix)) body(arrival);
    }
  }

  /// Counts the edges with this prefix by their next bits, and returns how many there are.
  __device__ std::uint32_t count(std::uint64_t prefix, int shift) {
    for (std::uint32_t bin = threadIdx.x; bin < kBins; bin += kThreads) memory_.histogram[bin] = 0;
    __syncthreads();
    std::uint32_t counted = 0;
    for_each(prefix, shift + kBits, [&](std::uint64_t arrival) {
      atomicAdd(&memory_.histogram[(arrival >> shift) & (kBins - 1)], 1u);
      ++counted;
    });
    counted = __reduce_add_sync(kAllLanes, counted);
    if (lane_index() == 0) memory_.warp_sums[threadIdx.x / kWarp] = counted;
    __syncthreads();
    std::uint32_t sum = 0;
    for (const std::uint32_t of_warp : memory_.warp_sums) sum += of_warp;
    return sum;
  }

  /// Finds the bin of the wanted arrival, which is the `wanted`-th of those counted.
  __device__ void find_bin(std::uint32_t wanted) {
    constexpr std::uint32_t kBinsPerThread = kBins / kThreads;
    __syncthreads();
    const std::uint32_t first = threadIdx.x * kBinsPerThread;
    std::uint32_t own = 0;
    for (std::uint32_t bin = first; bin < first + kBinsPerThread; ++bin) own += memory_.histogram[bin];
    std::uint32_t up_to = own;  // an inclusive scan over the block
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const std::uint32_t below = __shfl_up_sync(kAllLanes, up_to, static_cast<unsigned>(distance));
      if (lane_index() >= static_cast<unsigned>(distance)) up_to += below;
    }
    if (lane_index() == kWarp - 1) memory_.warp_sums[threadIdx.x / kWarp] = up_to;
    __syncthreads();
    for (unsigned w = 0; w < threadIdx.x / kWarp; ++w) up_to += memory_.warp_sums[w];
    std::uint32_t before = up_to - own;
    if (before < wanted && wanted <= up_to) {
      std::uint32_t bin = first;
      for (; before + memory_.histogram[bin] < wanted; ++bin) before += memory_.histogram[bin];
      memory_.bin = bin;
      memory_.before_bin = before;
      memory_.bin_count = memory_.histogram[bin];
    }
    __syncthreads();
  }

  /// The `wanted`-th of the few edges with this prefix.
  __device__ std::uint64_t last_of(std::uint64_t prefix, int shift, std::uint32_t wanted) {
    if (threadIdx.x == 0) memory_.num_candidates = 0;
    __syncthreads();
    for_each(prefix, shift, [&](std::uint64_t arrival) {
      memory_.candidates[atomicAdd(&memory_.num_candidates, 1u)] = arrival;
    });
    __syncthreads();
    for (std::uint32_t c = threadIdx.x; c < memory_.num_candidates; c += kThreads) {
      std::uint32_t rank = 1;
      for (std::uint32_t other = 0; other < memory_.num_candidates; ++other)
        rank += memory_.candidates[other] < memory_.candidates[c];
      if (rank == wanted) memory_.last = memory_.candidates[c];
    }
    __syncthreads();
    return memory_.last;
  }

  const Source& source_;
  BlockRaceMemory& memory_;
};

}  // namespace strata::sampling
