// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "choosers/pick_chooser.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/halo.hpp"
#include "strata/util/threads.hpp"

namespace strata::sampling {

/// Picks for a list of nodes, packed in the order of the list, in host memory. A view.
template <typename Id>
struct PickAnswers {
  std::span<const std::int32_t> counts;  ///< picks of each node
  std::span<const Id> neighbors;         ///< [sum of counts]
  std::span<const EdgeId> edge_ids;      ///< [sum of counts], or empty if not asked for
};

/// Asks the owners of remote nodes for their picks, once per node and hop, and passes the requests of others
/// to this rank. For nodes whose lists the machine keeps (ExchangeContext::halo) it chooses picks itself
/// instead.
///
/// Rail-aligned: world rank topology.rail(me, m) is asked for nodes of machine m. A hop is ask() and
/// answer(), or their four parts in order. All are collective over all ranks, whether or not they have a
/// frontier. A thread of its own transfers messages between a start and its finish, while the caller samples.
/// With one machine nothing is sent.
template <typename Id>
class NeighborExchange {
 public:
  NeighborExchange(const ExchangeContext& context, const SamplerOptions& options);

  bool active() const { return active_; }
  /// Entries of the halo's lists that are not chosen from now on; a view.
  void exclude(std::span<const Count> entries) { excluded_ = entries; }

  /// Begins to send the remote nodes of the query to their owners. The query's nodes stay in place until
  /// finish_ask().
  void start_ask(const PickQuery& query);
  /// The nodes that others ask this rank for, grouped by rank.
  std::span<const NodeId> finish_ask();
  /// Exchanges the numbers of picks, and begins to send the picks of the nodes that finish_ask() returned;
  /// `picks` must stay valid until finish_answer(). Returns the counts of this rank's remote nodes.
  std::span<const std::int32_t> start_answer(const PickAnswers<Id>& picks);
  /// The picks of this rank's remote nodes; valid until the next hop.
  PickAnswers<Id> finish_answer();

  std::span<const NodeId> ask(const PickQuery& query) {
    start_ask(query);
    return finish_ask();
  }
  PickAnswers<Id> answer(const PickAnswers<Id>& picks) {
    start_answer(picks);
    return finish_answer();
  }

  /// Answer i is about the query's node remote_positions()[i].
  std::span<const Count> remote_positions() const { return remote_positions_; }

  const ExchangeReport& report() const { return report_; }

 private:
  void group(std::span<const NodeId> frontier);
  void measure_halo(const PickQuery& query);
  void choose_halo();
  void run_async(std::function<void()> work);
  void wait();
  /// The kind of a message in the report.
  enum class Message : std::uint8_t { request, answer };
  template <typename T>
  void transfer(Message kind, std::span<const T> send, std::span<const Count> send_counts, T* received,
                std::span<const Count> received_counts);

  ExchangeContext context_;
  bool active_ = false, edge_ids_ = false;
  store::Servers servers_;
  std::size_t hop_ = 0;

  store::OwnerSplit split_;
  std::vector<Count> incoming_counts_;   // nodes, by world rank
  std::vector<Count> remote_positions_;  // first those asked for, then those kept here
  std::vector<Id> asked_, incoming_;
  std::vector<NodeId> incoming_nodes_;

  std::unique_ptr<PickChooser<Id>> halo_chooser_;
  PickQuery halo_query_;
  std::span<const Count> excluded_;  // of the halo's lists
  PickPlan halo_plan_;
  std::vector<NodeId> halo_nodes_;
  std::vector<Count> halo_offsets_;  // within the answer

  std::vector<std::int32_t> answer_counts_;
  std::vector<Id> answer_neighbors_;
  std::vector<EdgeId> answer_edge_ids_;
  ExchangeReport report_;
  Worker wire_;  // last: its work uses the others
};

}  // namespace strata::sampling
