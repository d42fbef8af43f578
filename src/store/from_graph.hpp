#pragma once
#include <functional>

#include "machine_graph_state.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::store {

/// How a machine keeps a graph that it has alone, as one part.
struct WholeGraphPlan {
  RegionSizes sizes;
  FeatureShape features;
  GraphPlacement placement;

  std::int64_t host_bytes() const { return placement.host_bytes(sizes, features); }
};

/// Collective over the machine.
WholeGraphPlan plan_whole_graph(const graph::Manifest& manifest, const comm::Machine& machine,
                                const LoadOptions& options);

/// Puts a graph into memory and onto the GPUs of the machine; see MachineGraph::from_graph. `fill` writes the
/// rows of the features, given the structure and the labels in place; of graph->features only shape and type
/// matter here. Collective over the machine; so is `fill`.
using FeatureFiller = std::function<void(ChunkTensor& features, const GraphRegions& regions)>;
void take_graph(graph::Graph* graph, const comm::Machine& machine, const LoadOptions& options,
                const FeatureFiller& fill, GraphState& state);

}  // namespace strata::store
