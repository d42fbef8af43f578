// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "cache/list_ranking.hpp"
#include "strata/store/adjacency_cache_view.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::store {

/// Which lists have copies on GPUs, in the form in which AdjacencyCacheView finds them. A value.
struct AdjacencyDirectory {
  using Groups = std::vector<AdjacencyCacheView::Group>;
  Groups replicated, striped;   ///< empty: no list, or all of them are striped
  tensor::Placement placement;  ///< of the entries, by part: what the copied lists have
  tensor::Segment totals;       ///< over the parts

  bool stripes_all() const { return totals.striped > 0 && totals.striped == totals.rows(); }
};

/// Of each part the lists that come first in the ranking have copies: as many as fit in the rows that
/// `wanted` replicates, then in those that it stripes. All ranks come to the same.
AdjacencyDirectory choose_lists(const ListRanking& ranking, const Count* indptr,
                                const tensor::Placement& wanted, ThreadPool& pool);

}  // namespace strata::store
