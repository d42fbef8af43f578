// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/util/scratch.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Numbers the names of nodes, which are integers or any text, in the order in which they are met.
class NodeNumbering {
 public:
  NodeId number_of(std::int64_t id) {
    const auto [found, is_new] = ids_.try_emplace(id, static_cast<NodeId>(ids_.size()));
    return found->second;
  }
  NodeId number_of(std::string_view name) {
    if (const auto found = words_.find(name); found != words_.end()) return found->second;
    kept_.emplace_back(name);
    letters_ += std::ssize(name);
    return words_.emplace(kept_.back(), static_cast<NodeId>(words_.size())).first->second;
  }

  std::optional<NodeId> find(std::int64_t id) const { return found_in(ids_, id); }
  std::optional<NodeId> find(std::string_view name) const { return found_in(words_, name); }

  /// The names, one line per node, by number.
  std::string names() const;

  /// Nodes in the order of their names, whatever the order in which they were met.
  struct Order {
    std::vector<NodeId> place;  ///< by number as it was given: the final number
    std::string names;          ///< one line per node, in the final order
  };
  Order order() const;
  Count size() const { return std::ssize(ids_) + std::ssize(words_); }
  /// Throws OutOfMemory if names take more than half of the room of a graph on disk. `origin` has them.
  void require_room(const ScratchStore* scratch, const std::string& origin, const char* remedy) const;

 private:
  template <typename Map>
  static std::optional<NodeId> found_in(const Map& numbers, const typename Map::key_type& name) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  }
  /// What the names and their order take in memory, at most.
  std::int64_t bytes() const;

  std::unordered_map<std::int64_t, NodeId> ids_;
  std::deque<std::string> kept_;
  std::unordered_map<std::string_view, NodeId> words_;  ///< views of kept_
  Count letters_ = 0;                                   ///< of all words
};

}  // namespace strata::graph
