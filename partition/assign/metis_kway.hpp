// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <metis.h>

#include <cstdint>
#include <vector>

namespace strata::partition {

/// A graph for METIS to cut: every pair of neighbors once in each direction, no self-loops or repetitions.
struct KwayGraph {
  std::vector<idx_t> xadj;  ///< [num_nodes + 1]
  std::vector<idx_t> own_ids{};
  const idx_t* borrowed_ids = nullptr;  ///< instead of own_ids: the caller keeps them alive
  int num_constraints = 1;
  std::vector<idx_t> node_weights{};  ///< [num_nodes][num_constraints], or empty: 1 each
  std::vector<idx_t> edge_weights{};  ///< parallel to the ids, or empty: 1 each

  idx_t num_nodes() const { return static_cast<idx_t>(xadj.size() - 1); }
  const idx_t* ids() const { return borrowed_ids != nullptr ? borrowed_ids : own_ids.data(); }
  idx_t weight(idx_t node, int constraint) const {
    const auto at = static_cast<std::size_t>(node) * static_cast<std::size_t>(num_constraints) +
                    static_cast<std::size_t>(constraint);
    return node_weights.empty() ? 1 : node_weights[at];
  }
};

struct KwayOptions {
  int num_parts = 2;
  double imbalance = 0.03;
  std::uint64_t seed = 0;
};

/// The parts of METIS k-way with gpmetis's defaults. METIS takes time that grows with the square of the
/// number of components, so it gets the large ones only: nodes without neighbors and small components are
/// dealt whole, the heaviest first, each to the part that is lightest under the constraints in which it
/// weighs anything.
///
/// REQUIRES: num_parts >= 2. Parts may exceed their limits, and be empty. Throws OutOfMemory.
std::vector<std::int32_t> metis_kway(KwayGraph graph, const KwayOptions& options);

}  // namespace strata::partition
