#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/sampling/sampler.hpp"

namespace strata::sampling {

/// Slots for a list of nodes, packed in its order; in host memory. A view.
template <typename Id>
struct SlotAnswers {
  std::span<const std::int32_t> counts;  ///< slots of each node
  std::span<const Id> neighbors;         ///< [sum of counts]
  std::span<const EdgeId> edge_ids;      ///< likewise, or empty if not asked for
};

/// Asks the owners of remote nodes for their slots, once a hop, and passes on what others ask of this rank.
///
/// Rank-aligned: nodes of machine m are asked of world rank topology.rail(me, m). A hop is ask() and then
/// answer(), both collective over all ranks, whether they have a frontier or not. With one machine nothing is
/// sent.
template <typename Id>
class NeighborExchange {
 public:
  NeighborExchange(const ExchangeContext& context, std::size_t num_hops, bool edge_ids);

  bool active() const { return active_; }

  /// Sends the remote nodes of the frontier to their owners; returns what was asked of this rank, grouped by
  /// rank. Collective.
  std::span<const NodeId> ask(std::span<const NodeId> frontier, int hop);

  /// Sends the slots of the nodes that ask() returned; returns those of this rank's remote nodes. Collective.
  SlotAnswers<Id> answer(const SlotAnswers<Id>& slots);

  /// answer()'s node i is the frontier's node remote_positions()[i].
  std::span<const Count> remote_positions() const { return remote_positions_; }

  const ExchangeReport& report() const { return report_; }

 private:
  int machine_of(NodeId node) const;
  void group_by_rank(std::span<const NodeId> frontier);
  template <typename T>
  void transfer(std::span<const T> send, std::span<const Count> send_counts, std::vector<T>& received,
                std::span<const Count> received_counts);
  /// Sums of values over consecutive groups of the given sizes.
  static std::vector<Count> sums(std::span<const std::int32_t> values, std::span<const Count> group_sizes);

  ExchangeContext context_;
  bool active_ = false, edge_ids_ = false;
  int machine_ = 0;
  std::vector<int> rank_of_machine_;  // whom this rank asks
  std::vector<std::int32_t> frontier_machines_;
  std::vector<Count> asked_counts_, incoming_counts_;  // nodes, by world rank
  std::vector<Count> remote_positions_;
  std::vector<Id> asked_, incoming_;
  std::vector<NodeId> incoming_nodes_;
  std::vector<std::int32_t> answer_counts_;
  std::vector<Id> answer_neighbors_;
  std::vector<EdgeId> answer_edge_ids_;
  ExchangeReport report_;
};

}  // namespace strata::sampling
