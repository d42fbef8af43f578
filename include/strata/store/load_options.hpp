// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>

#include "strata/plan/graph_shape.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/plan/heat.hpp"
#include "strata/plan/placement_request.hpp"
#include "strata/tensor/placement.hpp"

namespace strata::store {

/// What is loaded of a graph, and what a plan may spend on it.
struct LoadOptions {
  bool edge_ids = false;
  bool edge_weights = false;  ///< InputError if the graph has none
  /// Lists have the edges among training nodes only, as inductive training reads them; all edges are in
  /// MachineGraph::whole_view(). Not with `edge_ids`. No lists of other machines' nodes are kept.
  bool train_edges_only = false;
  bool in_degrees = false;
  bool degrees_of_loops = true;       ///< whether `in_degrees` count self-loops
  std::int64_t gpu_budget_bytes = 0;  ///< per GPU, for structure and features together; ignored on the cpu
  /// Bytes of the budget to leave free for each input row of a batch. The number of input rows is estimated
  /// from the structure.
  std::int64_t bytes_per_input_row = 0;
  bool row_normalize = false;  ///< while loading, scale each feature row so that its absolute values sum to 1
  plan::FeatureFormat feature_format = plan::FeatureFormat::stored;
  plan::PlacementRequest placement = {};
  plan::BatchShape batch = {};
  tensor::HostPath host_path = tensor::HostPath::automatic;  ///< how GPUs read feature rows in host memory
  int host_threads = 0;                                      ///< for `host_path`; see GatherSettings::threads
  bool verify_parts = true;  ///< refuse part files that changed since they were built
  plan::Replication replication = plan::Replication::off;
  /// Host memory per machine for what it keeps of other machines' nodes: those feature rows and neighbor
  /// lists (unless the structure is replicated) that save most of the exchange per byte. Or plan::kAutomatic.
  std::int64_t halo_bytes = 0;
  /// Rows of them are rounded as batches::RowExchangeContext::in_bf16 rounds those that travel, so that
  /// numbers do not depend on what is kept. Compressed rows never are.
  bool halo_rows_in_bf16 = false;
  /// OpenGraph::place() returns when the hottest feature rows are in place; MachineGraph::arrival() reads the
  /// others.
  bool late_features = false;
};

}  // namespace strata::store
