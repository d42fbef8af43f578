// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "load/from_graph.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::store {

/// What MachineGraph::generate was asked for; a view.
struct GenerateTask {
  const graph::SyntheticSpec& spec;
  const graph::ReadOptions& read;
  const LoadOptions& load;
  const comm::Machine& machine;
  ThreadPool& pool;
};

/// MachineGraph::generate on a machine whose ranks all have a GPU. Collective over it.
void generate_on_gpus(const GenerateTask& task, GraphState& state);

/// Makes a graph of kind=lognormal without its features. Completes state.manifest, which lacks the number of
/// edges and whether the graph is undirected, and makes the regions. Collective over the machine.
void generate_lognormal(const GenerateTask& task, GraphState& state);

/// Makes the rows of `features` and writes them where they lie. `labels` covers all nodes, in a HostRegion.
/// Collective over the machine.
void generate_features(const GenerateTask& task, std::int32_t* labels, tensor::ChunkTensor& features);

}  // namespace strata::store
