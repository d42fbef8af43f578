// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/plan/graph_placement.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::store {

/// Which lists have copies on GPUs, in the form that AdjacencyCacheView reads. A value.
struct AdjacencyDirectory {
  using Groups = std::vector<AdjacencyCacheView::Group>;
  Groups replicated, striped;   ///< empty if no list is in this stratum, or if all lists are striped
  tensor::Placement placement;  ///< entries of the copied lists, by part
  tensor::Segment totals;       ///< over the parts

  bool stripes_all() const { return totals.rows() > 0 && totals[tensor::Stratum::striped] == totals.rows(); }
};

/// Chooses from each part the lists that come first in the ranking: as many as fit into the rows that
/// `wanted` replicates, then as many as fit into those that it stripes. The result is the same on all ranks.
AdjacencyDirectory choose_lists(const plan::ListRanking& ranking, const Count* indptr,
                                const tensor::Placement& wanted, ThreadPool& pool);

}  // namespace strata::store
