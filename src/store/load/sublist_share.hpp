// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

namespace strata::store {

/// Sublists in memory that the ranks of a machine share, as SublistsView has them. A view.
struct SublistArrays {
  Count *first = nullptr, *begins = nullptr;
  std::int32_t* nodes = nullptr;
  RelationId* relations = nullptr;
};

/// The sublists of a rank's share of lists, which edge ids give away, until there is memory for them. An
/// owner.
class SublistShare {
 public:
  /// Adds the edge ids of a range of lists to a scan.
  using Scan = std::function<void(Range lists, graph::SublistScan& scan)>;
  /// Reads the edge ids of the share. Throws InputError for lists that are not in the order of relations.
  SublistShare(const graph::RelationRanges& ranges, Range share, const Scan& scan, ThreadPool& pool);

  /// Adds up the shares of all ranks. Collective over the machine.
  struct Sizes {
    Count sublists = 0, most_of_a_list = 0;
  };
  Sizes count(const comm::Machine& machine);
  /// Writes the share; it is gone then. `indptr` is that of all lists. REQUIRES: count().
  void move_to(const SublistArrays& arrays, const Count* indptr);

 private:
  struct Piece {
    Range lists;
    graph::Sublists sublists;  ///< entries count from the piece's first
  };

  std::vector<Piece> pieces_;
  Count before_ = 0;  // sublists of the ranks before this one
};

}  // namespace strata::store
