// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "machine_graph_state.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::store {

/// How a machine keeps a graph that it has alone, as one part.
struct WholeGraph {
  RegionSizes sizes;
  FeatureShape features;

  static WholeGraph of(const graph::Manifest& manifest, const LoadOptions& options);
};

/// What every placement of the graph needs of the host's memory. Collective over the machine.
std::int64_t least_host_bytes(const WholeGraph& graph, const comm::Machine& machine,
                              const LoadOptions& options);

/// Places a graph whose structure and labels are in state.regions; `fill` writes the rows of the features.
/// Collective over the machine; so is `fill`.
using FeatureFiller = std::function<void(tensor::ChunkTensor& features, const GraphRegions& regions)>;
void place_whole_graph(const WholeGraph& graph, const comm::Machine& machine, const LoadOptions& options,
                       const FeatureFiller& fill, GraphState& state);

/// Puts a graph into memory and onto the GPUs of the machine; see MachineGraph::from_graph. `fill` writes the
/// rows of the features, given the structure and the labels in place; of graph->features only shape and type
/// matter here. Collective over the machine; so is `fill`.
void take_graph(graph::Graph* graph, const comm::Machine& machine, const LoadOptions& options,
                const FeatureFiller& fill, GraphState& state);

}  // namespace strata::store
