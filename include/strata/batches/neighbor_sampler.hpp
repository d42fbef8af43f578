// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>

#include "strata/batches/batch.hpp"
#include "strata/batches/graph.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::batches {

/// Blocks of any nodes, when they are asked for: for programs that decide from one hop what the next one is.
///
///     NeighborSampler sampler(graph, {.fanouts = {4}});
///     auto batch = sampler.sample(seeds, {.seed = 7, .epoch = 0, .step = 3}, 0, stream);
///     batch->blocks[0]                      // the in-edges; batch->nodes are the sources, seeds first
///
/// The structure of the whole graph must lie on this machine: one machine, or replicated. Nothing is
/// collective. Any thread may call it; calls of several threads take turns, in which the work of a GPU does
/// not overlap.
class NeighborSampler {
 public:
  /// Of the options: fanouts, method, replace, layer_dependent, chooser, transpose, input_transpose. Throws
  /// InputError as sampling::make_sampler(), and if other machines have parts of the structure.
  NeighborSampler(std::shared_ptr<Graph> graph, const sampling::SamplerOptions& options);
  ~NeighborSampler();
  NeighborSampler(const NeighborSampler&) = delete;
  NeighborSampler& operator=(const NeighborSampler&) = delete;

  Device device() const;  ///< that batches lie on
  /// Distinct nodes, in host memory; the batch has neither features nor labels, and lives as long as
  /// NodeLoader's. Hop h here draws what hop `first_hop` + h of a sampler of several hops draws with this
  /// key. Throws InputError for a node that the graph does not have or that is given twice.
  std::shared_ptr<const NodeBatch> sample(std::span<const NodeId> nodes, const BatchKey& key, int first_hop,
                                          const cuda::Stream& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::batches
