// SPDX-License-Identifier: Apache-2.0
#include "multilevel/linear_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "multilevel/contract.hpp"
#include "multilevel/multilevel.hpp"

namespace strata::partition {
namespace {

using Nodes = std::vector<std::int32_t>;

/// Orders the nodes of a small graph by repeated bisection.
class Bisections {
 public:
  Bisections(const LevelGraph& graph, std::uint64_t seed, ThreadPool& pool)
      : graph_{graph},
        seed_{seed},
        pool_{pool},
        number_(at(graph.num_nodes)),
        piece_of_(at(graph.num_nodes), -1) {}

  /// The place of every node in the order.
  Nodes places() {
    Nodes all(at(graph_.num_nodes)), places(all.size());
    std::iota(all.begin(), all.end(), 0);
    order(std::move(all));
    for (std::size_t place = 0; place < ordered_.size(); ++place)
      places[at(ordered_[place])] = static_cast<std::int32_t>(place);
    return places;
  }

 private:
  void order(Nodes nodes) {
    constexpr std::ptrdiff_t kLeast = 2;
    if (std::ssize(nodes) <= kLeast) {
      ordered_.insert(ordered_.end(), nodes.begin(), nodes.end());
      for (const std::int32_t v : nodes) piece_of_[at(v)] = kOrdered;
      return;
    }
    auto [one, other] = halves(nodes);
    if (pull(other) > pull(one)) std::swap(one, other);
    order(std::move(one));
    order(std::move(other));
  }

  std::pair<Nodes, Nodes> halves(const Nodes& nodes) {
    const Count half = (std::ssize(nodes) + 1) / 2;
    const Nodes side = multilevel_parts(
        piece(nodes), {.num_parts = 2, .imbalance = 0.001, .limits = {half}, .seed = seed_}, pool_);
    Nodes one, other;
    for (std::size_t i = 0; i < nodes.size(); ++i) (side[i] == 0 ? one : other).push_back(nodes[i]);
    if (!one.empty() && !other.empty()) return {std::move(one), std::move(other)};
    return {Nodes(nodes.begin(), nodes.begin() + half), Nodes(nodes.begin() + half, nodes.end())};
  }

  /// The edges among some nodes; every node weighs one.
  LevelGraph piece(const Nodes& nodes) {
    LevelGraph result;
    result.num_nodes = std::ssize(nodes);
    result.own_begin = {0};
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      number_[at(nodes[i])] = static_cast<std::int32_t>(i);
      piece_of_[at(nodes[i])] = piece_;
    }
    for (const std::int32_t v : nodes) {
      for (Count e = graph_.begin[v]; e < graph_.begin[v + 1]; ++e) {
        if (piece_of_[at(graph_.ids[e])] != piece_) continue;
        result.own_ids.push_back(number_[at(graph_.ids[e])]);
        result.own_edge_weights.push_back(graph_.edge_weights[e]);
      }
      result.own_begin.push_back(std::ssize(result.own_ids));
    }
    ++piece_;
    result.use_own_lists();
    return result;
  }

  /// How strongly nodes are connected to those that have their places already, per node.
  double pull(const Nodes& nodes) const {
    Count weight = 0;
    for (const std::int32_t v : nodes)
      for (Count e = graph_.begin[v]; e < graph_.begin[v + 1]; ++e)
        if (piece_of_[at(graph_.ids[e])] == kOrdered) weight += graph_.edge_weight(e);
    return static_cast<double>(weight) / static_cast<double>(nodes.size());
  }

  static constexpr std::int32_t kOrdered = -2;

  const LevelGraph& graph_;
  std::uint64_t seed_;
  ThreadPool& pool_;
  Nodes number_;            // within the piece
  Nodes piece_of_;          // the last piece that a node was in, or kOrdered
  std::int32_t piece_ = 0;  // number of the next piece
  Nodes ordered_;
};

}  // namespace

void number_by_nearness(const LevelGraph& graph, int num_groups, std::uint64_t seed, ThreadPool& pool,
                        std::vector<std::int32_t>& group_of) {
  const LevelGraph groups = contract(graph, {group_of, num_groups}, pool);
  const Nodes places = Bisections{groups, seed, pool}.places();
  for (std::int32_t& group : group_of) group = places[at(group)];
}

}  // namespace strata::partition
