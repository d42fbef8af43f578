// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "machine_graph_state.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::store {

/// How the only machine of a run keeps a whole graph, as one part.
struct WholeGraph {
  RegionSizes sizes;
  FeatureShape features;

  static WholeGraph of(const graph::Manifest& manifest, const LoadOptions& options);
};

/// Host memory that every placement of the graph needs at least. Collective over the machine.
std::int64_t least_host_bytes(const WholeGraph& graph, const comm::Machine& machine,
                              const LoadOptions& options);

/// Writes the rows of the features, given the structure and labels in place. Collective over the machine.
/// place_whole_graph() uses it to place a graph whose structure and labels are in state.regions, and is
/// collective, too.
using FeatureFiller = std::function<void(tensor::ChunkTensor& features, const GraphRegions& regions)>;
void place_whole_graph(const WholeGraph& graph, const comm::Machine& machine, const LoadOptions& options,
                       const FeatureFiller& fill, GraphState& state);

/// Puts a graph into memory and onto the GPUs of the machine; see MachineGraph::from_graph. `fill` writes the
/// rows of the features; only the shape and type of graph->features matter here. Collective over the machine.
void take_graph(graph::Graph* graph, const comm::Machine& machine, const LoadOptions& options,
                const FeatureFiller& fill, GraphState& state);

}  // namespace strata::store
