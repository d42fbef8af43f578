// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/plan/heat.hpp"
#include "strata/plan/placement.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/store/halo.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/tensor/placement.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// What is loaded of a graph, and what a plan may spend on it.
struct LoadOptions {
  bool edge_ids = false;
  bool edge_weights = false;  ///< InputError if the graph has none
  /// Lists have the edges among training nodes only, as inductive training reads them; all edges are in
  /// MachineGraph::whole_view(). Not with `edge_ids`. No lists of other machines' nodes are kept.
  bool train_edges_only = false;
  /// Lists have only its edges of training; MachineGraph::held_edges() has the others, too. No lists of other
  /// machines' nodes are kept.
  std::optional<graph::EdgeSplit> edge_split = {};
  bool leaves_edges_out() const { return train_edges_only || edge_split.has_value(); }
  bool in_degrees = false;
  bool degrees_of_loops = true;       ///< whether `in_degrees` count self-loops
  std::int64_t gpu_budget_bytes = 0;  ///< per GPU, for structure and features together; ignored on the cpu
  /// Bytes of the budget to leave free for each input row of a batch. The number of input rows is estimated
  /// from the structure.
  std::int64_t bytes_per_input_row = 0;
  bool row_normalize = false;  ///< while loading, scale each feature row so that its absolute values sum to 1
  plan::FeatureFormat feature_format = plan::FeatureFormat::stored;
  plan::PlacementRequest placement = {};
  plan::BatchShape batch = {};
  tensor::HostPath host_path = tensor::HostPath::automatic;  ///< how GPUs read feature rows in host memory
  int host_threads = 0;                                      ///< for `host_path`; see GatherSettings::threads
  bool verify_parts = true;  ///< refuse part files that changed since they were built
  plan::Replication replication = plan::Replication::off;
  /// Host memory per machine for what it keeps of other machines' nodes: those feature rows and neighbor
  /// lists (unless the structure is replicated) that save most of the exchange per byte. Or plan::kAutomatic.
  std::int64_t halo_bytes = 0;
  /// Rows of them are rounded as batches::RowExchangeContext::in_bf16 rounds those that travel, so that
  /// numbers do not depend on what is kept. Compressed rows never are.
  bool halo_rows_in_bf16 = false;
  /// OpenGraph::place() returns when the hottest feature rows are in place; MachineGraph::arrival() reads the
  /// others.
  bool late_features = false;
  /// Original ids of the nodes that splits are narrowed to, such as those of one type; none: all.
  std::optional<Range> split_nodes = {};
};

/// Feature rows that are read from the part files while batches are already made. An owner of the threads
/// that read them.
///
/// Every rank of a machine reads a share of the rows in the background, in the order of their heat. Whoever
/// needs a row that is not there yet reads it at once, and waits for nothing else.
class FeatureArrival {
 public:
  struct State;
  explicit FeatureArrival(std::unique_ptr<State> state);
  ~FeatureArrival();  ///< stops reading
  FeatureArrival(const FeatureArrival&) = delete;
  FeatureArrival& operator=(const FeatureArrival&) = delete;

  /// Returns when the rows of these ids are in place, so that a gather on `stream` may read them. While rows
  /// are missing it waits for the stream, on which the ids lie; afterwards it costs nothing.
  ///
  /// Rethrows what the background met: InputError for rows that are damaged or not finite, IoError. Thread
  /// safe; not collective.
  void require(const tensor::RowIds& ids, const cuda::Stream& stream);

  /// Returns when this rank's share of the rows is in place; rethrows what the background met. When it has
  /// returned on all ranks, all rows are there. For one thread, while none calls require().
  void finish();

  struct Report {
    Count late_rows = 0;            ///< of this machine, not in place at the start
    Count required_rows = 0;        ///< of those, that batches of this rank read themselves
    double required_seconds = 0;    ///< that this rank's batches waited for missing rows
    double background_seconds = 0;  ///< from the start until this rank's share was in place; 0: not yet
  };
  Report report() const;

 private:
  std::unique_ptr<State> state_;
};

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
  tensor::ChunkTensor& features();
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
  /// [edges, 3] source, destination and edge id of each edge of a split that no list has, by original ids,
  /// ascending by edge id, which is -1 where LoadOptions::edge_split holds edges out and no ids are loaded; of all
  /// machines. Both directions of an undirected edge are one. Empty for Split::train.
  std::span<const std::int64_t> held_edges(graph::Split split) const;

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
