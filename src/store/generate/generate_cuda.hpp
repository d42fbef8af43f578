// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "load/from_graph.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/threads.hpp"

namespace strata::store {

/// What OpenGraph::generate was asked for.
struct GenerateTask {
  graph::SyntheticSpec spec;
  graph::ReadOptions read;
  LoadOptions load;
  const comm::Machine& machine;
  ThreadPool& pool;
};

/// OpenGraph::generate on a machine whose ranks all have a GPU. Collective over it.
std::unique_ptr<GraphSource> generate_on_gpus(const GenerateTask& task, std::int64_t gpu_bytes);

/// Makes a graph of kind=lognormal without its features. Completes state.manifest, which lacks the number of
/// edges and whether the graph is undirected, and makes the regions. Collective over the machine.
void generate_lognormal(const GenerateTask& task, GraphState& state);

/// Makes the rows of `features` and writes them where they lie. `labels` covers all nodes, in a HostRegion.
/// Collective over the machine.
void generate_features(const GenerateTask& task, std::int32_t* labels, tensor::ChunkTensor& features);

}  // namespace strata::store
