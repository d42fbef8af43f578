// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/util/threads.hpp"

namespace example {

struct RandomWalkOptions {
  int num_walks = 10;    ///< from each node
  int length = 3;        ///< steps of a walk at most
  double restart = 0.3;  ///< chance to return to the start before a step
};

/// Neighbors by importance, as PinSAGE draws them (Ying and others, "Graph convolutional neural networks for
/// web-scale recommender systems", KDD 2018): short random walks against the edges start at a node, and the
/// `fanout` nodes that they visit most often are its neighbors; of equally often visited ones, those of
/// lower original id.
///
/// A walk ends at a node without in-neighbors, and at one that another machine owns, so the result depends
/// on how a graph is cut: use it with one machine. Visited nodes need not be joined to the start: their edge
/// id is -1.
class RandomWalkChooser final : public strata::sampling::NeighborChooser {
 public:
  /// `graph` (in host memory) and `pool` must outlive it. Throws InputError for options out of range.
  RandomWalkChooser(const strata::store::GraphView& graph, const RandomWalkOptions& options,
                    strata::ThreadPool& pool);
  void choose(const strata::sampling::PickQuery& query, strata::sampling::ChosenNeighbors& out) override;

 private:
  /// Appends the nodes that the walks from `start` visit, once a visit.
  void walk(const strata::sampling::PickQuery& query, strata::NodeId start,
            std::vector<strata::NodeId>& visited) const;
  /// Replaces visits by the most visited nodes, in that order.
  void keep_most_visited(int fanout, std::vector<strata::NodeId>& visited) const;

  const strata::store::GraphView& graph_;
  RandomWalkOptions options_;
  strata::ThreadPool& pool_;
  std::vector<std::vector<strata::NodeId>> lists_;  // of a query's nodes
};

}  // namespace example
