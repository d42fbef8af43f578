// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// Sums of edge weights by key, for the neighbors of one node at a time. Costs grow with the neighbors, never
/// with the range of the keys.
class Sums {
 public:
  struct Entry {
    std::int32_t key = -1;
    Count sum = 0;
  };

  /// Makes room for `keys` distinct keys and forgets all sums.
  void reset(Count keys) {
    for (const std::uint32_t slot : used_) table_[slot].key = -1;
    used_.clear();
    std::size_t wanted = 16;
    while (wanted < 2 * at(keys)) wanted *= 2;
    if (wanted > table_.size()) table_.assign(wanted, Entry{});
    mask_ = static_cast<std::uint32_t>(wanted - 1);
  }
  void add(std::int32_t key, Count amount) {
    std::uint32_t slot =
        static_cast<std::uint32_t>(static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull >> 32) & mask_;
    while (table_[slot].key != key) {
      if (table_[slot].key < 0) {
        table_[slot] = {key, 0};
        used_.push_back(slot);
        break;
      }
      slot = (slot + 1) & mask_;
    }
    table_[slot].sum += amount;
  }
  /// Calls visit(key, sum) in the order in which keys were first added.
  template <typename Visit>
  void visit(Visit visit) const {
    for (const std::uint32_t slot : used_) visit(table_[slot].key, table_[slot].sum);
  }

 private:
  std::vector<Entry> table_;
  std::vector<std::uint32_t> used_;
  std::uint32_t mask_ = 0;
};

/// Sums of edge weights by part. It costs one word per part to make; use costs grow with the neighbors.
class Links {
 public:
  /// Sums the edge weights from a node to each part. `part_of` returns the part of a node.
  template <typename Graph, typename PartOf>
  void count(const Graph& graph, PartOf part_of, Count node, int num_parts) {
    for (const std::int32_t part : parts_) sums_[at(part)] = 0;
    parts_.clear();
    sums_.resize(at(num_parts));
    for (Count e = graph.begin[node]; e < graph.begin[node + 1]; ++e) {
      const std::int32_t part = part_of(graph.ids[e]);
      Count& sum = sums_[at(part)];
      if (sum == 0) parts_.push_back(part);
      sum += graph.edge_weight(e);
    }
  }
  Count to(std::int32_t part) const { return sums_[at(part)]; }
  /// Parts with a neighbor, in the order of the first one.
  const std::vector<std::int32_t>& parts() const { return parts_; }

 private:
  std::vector<Count> sums_;
  std::vector<std::int32_t> parts_;
};

/// Things that a piece of a parallel loop borrows while it runs: as many are made as pieces run at once.
template <typename T>
class Shelf {
 public:
  class Loan {
   public:
    explicit Loan(Shelf& shelf) : shelf_{shelf} {
      const std::lock_guard lock{shelf.mutex_};
      if (!shelf.free_.empty()) {
        thing_ = std::move(shelf.free_.back());
        shelf.free_.pop_back();
      }
      if (!thing_) thing_ = std::make_unique<T>();
    }
    ~Loan() {
      const std::lock_guard lock{shelf_.mutex_};
      shelf_.free_.push_back(std::move(thing_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    T& operator*() { return *thing_; }

   private:
    Shelf& shelf_;
    std::unique_ptr<T> thing_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace strata::partition
