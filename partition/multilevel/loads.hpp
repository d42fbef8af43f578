// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <vector>

#include "multilevel/level_graph.hpp"

namespace strata::partition {

/// The weight of every part under every constraint, and its limit.
class Loads {
 public:
  Loads(const LevelGraph& graph, const std::vector<std::int32_t>& part_of, int num_parts,
        std::vector<Count> limits)
      : graph_{graph},
        constraints_{at(graph.num_constraints)},
        num_parts_{num_parts},
        limits_{std::move(limits)},
        loads_(constraints_ * at(num_parts)) {
    for (Count v = 0; v < graph.num_nodes; ++v) add(v, part_of[at(v)], 1);
  }

  int num_parts() const { return num_parts_; }
  int num_constraints() const { return static_cast<int>(constraints_); }
  const std::vector<Count>& limits() const { return limits_; }
  Count load(std::int32_t part, int c) const { return loads_[index(part) + at(c)]; }
  Count excess(std::int32_t part, int c) const { return load(part, c) - limits_[at(c)]; }

  /// The largest share of a limit that a part fills.
  double fullness(std::int32_t part) const {
    double most = 0;
    for (int c = 0; c < num_constraints(); ++c)
      most = std::max(most, static_cast<double>(load(part, c)) / static_cast<double>(limits_[at(c)]));
    return most;
  }
  bool is_over(std::int32_t part) const {
    for (int c = 0; c < num_constraints(); ++c)
      if (excess(part, c) > 0) return true;
    return false;
  }
  bool any_is_over() const {
    for (int part = 0; part < num_parts_; ++part)
      if (is_over(part)) return true;
    return false;
  }
  /// The weight of all parts above their limits, together.
  Count total_excess() const {
    Count sum = 0;
    for (int part = 0; part < num_parts_; ++part)
      for (int c = 0; c < num_constraints(); ++c) sum += std::max<Count>(excess(part, c), 0);
    return sum;
  }
  bool has_room(Count node, std::int32_t part) const {
    for (int c = 0; c < num_constraints(); ++c) {
      const Count w = graph_.weight(node, c);
      if (w > 0 && excess(part, c) + w > 0) return false;
    }
    return true;
  }
  void move(Count node, std::int32_t from, std::int32_t to) {
    add(node, from, -1);
    add(node, to, 1);
  }

 private:
  std::size_t index(std::int32_t part) const { return at(part) * constraints_; }
  void add(Count node, std::int32_t part, int sign) {
    for (std::size_t c = 0; c < constraints_; ++c)
      loads_[index(part) + c] += sign * graph_.weight(node, static_cast<int>(c));
  }

  const LevelGraph& graph_;
  std::size_t constraints_;
  int num_parts_;
  std::vector<Count> limits_;
  std::vector<Count> loads_;  // [part][constraint]
};

}  // namespace strata::partition
