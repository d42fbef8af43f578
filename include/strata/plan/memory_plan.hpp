// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/plan/cluster.hpp"
#include "strata/plan/planner.hpp"
#include "strata/plan/run_shape.hpp"

namespace strata::plan {

/// What a rank that computes on CPUs takes of host memory beside the graph: the libraries, the batches in
/// flight, a step's activations, and the model with its gradients and the state of its optimizer. An estimate
/// for batches such as the sampled ones. What takes more only where it is free does not count: exact
/// evaluation, and batches in flight beyond three.
std::int64_t training_host_bytes(const RunShape& run, const graph::Manifest& manifest,
                                 const BatchProfile& profile);

/// What lies where on the largest machine.
struct MemoryPlan {
  std::int64_t structure_bytes = 0;  ///< in host memory: lists, ids, labels, splits
  std::int64_t feature_bytes = 0;    ///< in host memory: rows that the GPUs have no room for, or all
  std::int64_t cache_bytes = 0;      ///< in host memory, of what other machines own
  std::int64_t training_bytes = 0;   ///< in host memory, of all ranks; 0 where GPUs compute
  std::int64_t graph_bytes() const { return structure_bytes + feature_bytes + cache_bytes; }
  std::int64_t host_bytes() const { return graph_bytes() + training_bytes; }
  std::int64_t gpu_training_bytes = 0, gpu_graph_bytes = 0;  ///< per GPU
  std::int64_t gpu_budget_bytes = 0;                         ///< per GPU, for the graph
  bool replicated = false;                                   ///< the structure of the whole graph
  double cached_lists = 0, cached_rows = 0;  ///< share of remote lists and rows that the cache answers
  MachinePlan placement;                     ///< of features and structure; empty on CPUs
  bool fits_host = true, fits_gpu = true;
};

MemoryPlan plan_memory(const RunShape& run, const graph::Manifest& manifest, const Cluster& cluster,
                       const BatchProfile& profile);

}  // namespace strata::plan
