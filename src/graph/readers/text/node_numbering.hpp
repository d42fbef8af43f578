// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::graph {

/// Numbers the names of nodes, which are integers or any text. In the end nodes are in the order of their
/// names, whatever the order in which they were met.
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

  struct Order {
    std::vector<NodeId> place;  ///< by number as it was given: the final number
    std::string names;          ///< a line per node, in the final order
  };
  Order order() const;
  Count size() const { return std::ssize(ids_) + std::ssize(words_); }
  /// What the names and their order take in memory, at most.
  std::int64_t bytes() const;

 private:
  std::unordered_map<std::int64_t, NodeId> ids_;
  std::deque<std::string> kept_;
  std::unordered_map<std::string_view, NodeId> words_;  ///< views of kept_
  Count letters_ = 0;                                   ///< of all words
};

}  // namespace strata::graph
