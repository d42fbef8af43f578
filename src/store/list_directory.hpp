#pragma once
#include <vector>

#include "list_ranking.hpp"
#include "strata/store/chunk_tensor.hpp"
#include "strata/store/list_copies.hpp"

namespace strata::store {

/// Which lists have copies on GPUs, in the form in which ListCopies finds them. A value.
struct ListDirectory {
  using Groups = std::vector<ListCopies::Group>;
  Groups replicated, striped;  ///< empty: no list, or all of them are striped
  Placement placement;         ///< of the entries, by part: what the copied lists have
  Segment totals;              ///< over the parts

  bool stripes_all() const { return totals.striped > 0 && totals.striped == totals.rows(); }
};

/// Of each part the lists that come first in the ranking have copies: as many as fit in the rows that
/// `wanted` replicates, then in those that it stripes. All ranks come to the same.
ListDirectory choose_lists(const ListRanking& ranking, const Count* indptr, const Placement& wanted,
                           ThreadPool& pool);

}  // namespace strata::store
