// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "load/graph_source.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::store {

/// How the only machine of a run keeps a whole graph, as one part.
plan::RegionSizes whole_sizes(const graph::Manifest& manifest, const LoadOptions& options);
plan::FeatureShape whole_features(const graph::Manifest& manifest, plan::FeatureFormat format);

/// A whole graph on one machine.
class WholeSource : public GraphSource {
 public:
  WholeSource(const comm::Machine& machine, const LoadOptions& options);

 protected:
  /// Puts the structure of a graph into memory; see OpenGraph::of_graph. Only the shape and type of
  /// graph->features matter here. Collective over the machine.
  void take(graph::Graph* graph);
  /// To be called once manifest and regions are there. Collective over the machine.
  void complete();
};

}  // namespace strata::store
