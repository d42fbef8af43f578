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

/// What a MachineGraph owns, as seen by the sources that fill it.
struct GraphState {
  graph::Manifest manifest;
  std::vector<NodeId> machine_offsets;
  std::optional<GraphRegions> regions;  // empty after close()
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
