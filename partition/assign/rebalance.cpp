// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "strata/partition/build.hpp"

namespace strata::partition {
namespace {

class Rebalancer {
 public:
  Rebalancer(const CompactGraph& graph, const std::vector<std::vector<std::int32_t>>& weights,
             const std::vector<Count>& limits, int num_parts, std::vector<std::int32_t>& part_of)
      : graph_{graph},
        weights_{weights},
        limits_{limits},
        part_of_{part_of},
        loads_(at(num_parts), std::vector<Count>(weights.size())),
        links_(at(num_parts)) {
    for (Count v = 0; v < graph.num_nodes; ++v) add(v, part_of[at(v)], 1);
  }

  Count run() {
    Count moves = 0;
    for (Count moved = 1; moved > 0;) {
      moved = 0;
      for (int part = 0; part < static_cast<int>(loads_.size()); ++part) {
        for (std::size_t c = 0; c < weights_.size(); ++c) {
          if (excess(part, c) > 0) moved += relieve(part, c);
        }
      }
      moves += moved;
    }
    return moves;
  }

 private:
  struct Move {
    double loss;  ///< further cut edges per unit of weight
    NodeId node;
  };
  struct Target {
    int part = -1;
    Count links = 0;
  };

  Count excess(int part, std::size_t c) const { return loads_[at(part)][c] - limits_[c]; }

  void add(Count node, int part, int sign) {
    for (std::size_t c = 0; c < weights_.size(); ++c) loads_[at(part)][c] += sign * weights_[c][at(node)];
  }

  bool has_room(Count node, int part) const {
    for (std::size_t c = 0; c < weights_.size(); ++c) {
      const Count w = weights_[c][at(node)];
      if (w > 0 && loads_[at(part)][c] + w > limits_[c]) return false;
    }
    return true;
  }

  /// Calls visit(part, links) for the parts of the node's in-neighbors.
  template <typename Visit>
  void visit_links(Count node, Visit visit) {
    std::vector<std::int32_t> touched;
    for (Count e = graph_.indptr[at(node)]; e < graph_.indptr[at(node) + 1]; ++e) {
      const std::int32_t part = part_of_[at(graph_.indices.span()[e])];
      if (links_[at(part)]++ == 0) touched.push_back(part);
    }
    for (const std::int32_t part : touched) visit(part, std::exchange(links_[at(part)], 0));
  }

  /// The linked part with room that has most links; else the emptiest part with room.
  Target best_target(Count node, int from, Count& own_links) {
    Target best;
    own_links = 0;
    visit_links(node, [&](std::int32_t part, Count links) {
      if (part == from) own_links = links;
      if (part != from && links > best.links && has_room(node, part)) best = {part, links};
    });
    if (best.part >= 0) return best;
    for (int part = 0; part < static_cast<int>(loads_.size()); ++part) {
      if (part == from || !has_room(node, part)) continue;
      if (best.part < 0 || loads_[at(part)] < loads_[at(best.part)]) best = {part, 0};
    }
    return best;
  }

  /// Moves nodes out of `part` until constraint c fits or no node can move. The cheapest nodes, by their
  /// links at the start, go first.
  Count relieve(int part, std::size_t c) {
    std::vector<Move> candidates;
    for (Count v = 0; v < graph_.num_nodes; ++v) {
      if (part_of_[at(v)] != part || weights_[c][at(v)] == 0) continue;
      Count own = 0;
      const Target target = best_target(v, part, own);
      if (target.part < 0) continue;
      candidates.push_back({static_cast<double>(own - target.links) / weights_[c][at(v)], v});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Move& a, const Move& b) { return a.loss < b.loss; });
    Count moves = 0;
    for (const Move& move : candidates) {
      if (excess(part, c) <= 0) break;
      Count own = 0;
      const Target target = best_target(move.node, part, own);
      if (target.part < 0) continue;
      add(move.node, part, -1);
      add(move.node, target.part, 1);
      part_of_[at(move.node)] = target.part;
      ++moves;
    }
    return moves;
  }

  const CompactGraph& graph_;
  const std::vector<std::vector<std::int32_t>>& weights_;
  const std::vector<Count>& limits_;
  std::vector<std::int32_t>& part_of_;
  std::vector<std::vector<Count>> loads_;  // [part][constraint]
  std::vector<Count> links_;               // scratch of visit_links, all zero between calls
};

}  // namespace

Count rebalance(const CompactGraph& graph, const std::vector<std::vector<std::int32_t>>& weights,
                const std::vector<Count>& limits, int num_parts, std::vector<std::int32_t>& part_of) {
  return Rebalancer{graph, weights, limits, num_parts, part_of}.run();
}

}  // namespace strata::partition
