// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// One pass over all nodes that gives the same result for every number of threads.
///
/// Nodes are taken in chunks of consecutive ids, in a keyed order. Some chunks at a time make a wave: they
/// may run in any order and at once, so a chunk must read of others only their state when the wave began,
/// and its decisions take effect between waves. Within a chunk each node may see the nodes before it.
class Chunks {
 public:
  Chunks(Count num_nodes, std::uint64_t key)
      : num_nodes_{num_nodes},
        size_{std::clamp<Count>(num_nodes / 16, 1, 2048)},
        at_once_{std::clamp<Count>(num_nodes / (16 * size_), 1, 64)},
        key_{key} {}

  struct Range {
    Count begin, end;
  };

  /// Nodes per chunk; the chunk of the highest ids may be smaller.
  Count size() const { return size_; }
  /// Nodes per wave.
  Count most_nodes() const { return at_once_ * size_; }

  /// Calls visit(wave) for one wave after another.
  template <typename Visit>
  void each_wave(Visit visit) const {
    const Count chunks = (num_nodes_ + size_ - 1) / size_;
    const Shuffle order{static_cast<std::uint64_t>(chunks), key_};
    std::vector<Range> wave;
    for (Count first = 0; first < chunks; first += at_once_) {
      wave.clear();
      for (Count i = first; i < std::min(first + at_once_, chunks); ++i) {
        const Count begin = static_cast<Count>(order(static_cast<std::uint64_t>(i))) * size_;
        wave.push_back({begin, std::min(begin + size_, num_nodes_)});
      }
      visit(std::span<const Range>{wave});
    }
  }

  /// Calls work(range) for the chunks of a wave in parallel, then settle(range) for each of them in order.
  template <typename Work, typename Settle>
  void run(ThreadPool& pool, Work work, Settle settle) const {
    each_wave([&](std::span<const Range> wave) {
      if (wave.size() == 1) {
        work(wave.front());
      } else {
        pool.parallel_for(std::ssize(wave), 1, [&](Count i, Count) { work(wave[at(i)]); });
      }
      for (const Range& range : wave) settle(range);
    });
  }

 private:
  Count num_nodes_, size_, at_once_;
  std::uint64_t key_;
};

}  // namespace strata::partition
