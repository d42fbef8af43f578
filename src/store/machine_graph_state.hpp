// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "cache/halo_regions.hpp"
#include "graph_on_device.hpp"
#include "graph_regions.hpp"
#include "load/train_edges.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::store {

/// The nodes of the splits, as MachineGraph has them: all that GraphRegions have, or those of a type.
struct SplitNodes {
  std::span<const NodeId> train, valid, test;
  std::span<const std::int32_t> train_clusters;
  std::vector<NodeId> own_valid, own_test;  ///< what `valid` and `test` view if they are narrowed

  explicit SplitNodes(const GraphRegions& regions);
  /// Leaves out nodes whose original ids are not in the range.
  void narrow(Range original_ids, const GraphRegions& regions);
};

/// What a MachineGraph owns, as seen by the sources that fill it.
struct GraphState {
  graph::Manifest manifest;
  std::vector<NodeId> machine_offsets;
  std::optional<GraphRegions> regions;  // empty after close()
  std::optional<SplitNodes> splits;     ///< of the regions
  std::optional<tensor::ChunkTensor> features;
  GraphOnDevice on_device;
  GraphView host_view, host_lists;
  std::optional<WholeLists> whole;  ///< with LoadOptions::train_edges_only
  GraphView whole_view, whole_host_view;
  std::optional<HaloRegions> halo;  ///< lists of other machines' nodes
  bool halo_rows_are_rounded = false;
  NodeIndex halo_rows;  ///< other machines' nodes whose rows follow this machine's
  std::vector<plan::PlanRow> plan;
  std::vector<plan::HottestRows> hottest_rows;
  Count presampled_batches = 0;
  std::unique_ptr<FeatureArrival> arrival;  ///< writes to `features` until it ends; null: all is there

  /// Sets `splits` when the regions are filled. The manifest counts this machine's nodes of them then.
  void take_splits(const LoadOptions& options);
  std::span<const NodeId> part_offsets() const;  ///< of this machine's parts, [parts + 1]

  /// Makes the table of feature rows without filling it. Collective over the machine.
  void make_features(const comm::Machine& machine, const plan::GraphPlacement& placement,
                     const LoadOptions& options);
  /// Copies the structure to the GPUs and sets views and plan. Call it when regions and features are filled.
  /// `placement` becomes what was realised. Collective over the machine.
  void place(const comm::Machine& machine, plan::GraphPlacement& placement);
};

/// Throws InputError if the options ask for what the graph does not have: edge weights, or edges among
/// training nodes only where there are several relations.
void check_options(const graph::Manifest& manifest, const LoadOptions& options);

}  // namespace strata::store
