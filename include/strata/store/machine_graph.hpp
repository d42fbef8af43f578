// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/store/feature_arrival.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/store/halo_lists.hpp"
#include "strata/store/load_options.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::store {

struct GraphState;

/// The parts that this machine hosts, once in its memory, as OpenGraph::place() made it. An owner.
class MachineGraph {
 public:
  MachineGraph(MachineGraph&&) noexcept;
  MachineGraph& operator=(MachineGraph&&) noexcept;
  ~MachineGraph();

  const graph::Manifest& manifest() const;
  /// Global ids of machine m: [machine_offsets()[m], machine_offsets()[m + 1]).
  std::span<const NodeId> machine_offsets() const;
  int machine_of(NodeId global) const;
  /// Global ids of this machine's parts, [parts + 1].
  std::span<const NodeId> part_offsets() const;

  const GraphView& host_view() const;   ///< of this machine's nodes, in host memory
  const GraphView& host_lists() const;  ///< as view(), in host memory
  /// What a sampler on this rank's compute device reads; host_view() on the cpu. It has the lists of all
  /// nodes if the structure is replicated.
  const GraphView& view() const;
  /// As view() and host_view(), with all edges of the graph where these have LoadOptions::train_edges_only;
  /// GPUs read them in host memory then. Otherwise the same.
  const GraphView& whole_view() const;
  const GraphView& whole_host_view() const;
  bool is_replicated() const;           ///< on all machines alike
  const HaloLists* halo_lists() const;  ///< null: none
  /// Row r belongs to global id first_node + r; the rows of halo_rows() follow. Columns are the manifest's
  /// feature_cols.
  const tensor::ChunkTensor& features() const;
  /// Of rows that were not read yet when load() returned, with LoadOptions::late_features; null: all are in
  /// place. Whoever reads features() before FeatureArrival::finish() must require() the rows.
  FeatureArrival* arrival() const;
  /// Other machines' nodes whose rows are here, with their positions; null: none.
  const NodeIndex* halo_rows() const;
  /// halo_rows(), or null if they are rounded (LoadOptions::halo_rows_in_bf16).
  const NodeIndex* exact_halo_rows() const;
  /// [num_local, manifest().label_words()], as graph::Graph::labels; empty without labels.
  std::span<const std::int32_t> labels() const;
  /// Global ids of ALL training nodes of the graph, in the order of their original ids.
  std::span<const NodeId> train_nodes() const;
  /// Of each of train_nodes(): part * manifest().num_clusters + its cluster; -1 if another machine owns it.
  /// Empty if the parts have no clusters, or the machine has one rank, which needs none.
  std::span<const std::int32_t> train_clusters() const;
  std::span<const NodeId> valid_nodes() const;  ///< of this machine, ascending
  std::span<const NodeId> test_nodes() const;

  /// What lies where, for the banner.
  const std::vector<plan::PlanRow>& plan() const;
  /// How many feature rows serve which share of the reads; empty without a plan of them.
  const std::vector<plan::HottestRows>& hottest_rows() const;
  Count presampled_batches() const;  ///< the plan was made from so many; 0: only from the structure

  void close(const comm::Machine& machine);  ///< collective

 private:
  friend class OpenGraph;
  explicit MachineGraph(std::unique_ptr<GraphState> state);
  std::unique_ptr<GraphState> state_;
};

}  // namespace strata::store
