// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "graph_regions.hpp"
#include "load/part_loader.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/relation_ranges.hpp"

namespace strata::store {

/// The sublists of a rank's share of its machine's lists, which edge ids give away, until there are regions
/// for them. An owner.
class SublistShare {
 public:
  /// Reads the share's edge ids. Throws InputError for lists that are not in the order of relations.
  SublistShare(const PartLoader& loader, const graph::Manifest& manifest, ThreadPool& pool);

  /// Sets the numbers of sublists of the machine. Collective over it.
  void count(const comm::Machine& machine, plan::RegionSizes& sizes);
  /// Writes the share to the regions; it is gone then. REQUIRES: count(), and the share's lists are there.
  void move_to(const GraphRegions& regions);

 private:
  struct Piece {
    Range lists;
    graph::Sublists sublists;  ///< entries count from the piece's first
  };

  std::vector<Piece> pieces_;
  Count before_ = 0;  // sublists of the ranks before this one
};

}  // namespace strata::store
