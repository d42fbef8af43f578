// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::graph {

/// Maps global ids to the parts that own them: part k has [offsets[k], offsets[k+1]). A value; cheap to copy.
///
///     offsets {0, 3, 7}: part_of(2) == 0, part_of(3) == 1, local_of(5) == 2, global_of(1, 2) == 5
class PartitionBook {
 public:
  PartitionBook() : offsets_{0} {}
  /// Throws InputError unless `offsets` begins with 0 and never decreases.
  explicit PartitionBook(std::vector<NodeId> offsets);

  Count num_nodes() const { return offsets_.back(); }
  int num_parts() const { return static_cast<int>(offsets_.size()) - 1; }
  std::span<const NodeId> offsets() const { return offsets_; }

  int part_of(NodeId global) const;  ///< REQUIRES: 0 <= global < num_nodes()
  Count local_of(NodeId global) const { return global - offsets_[static_cast<std::size_t>(part_of(global))]; }
  NodeId global_of(int part, Count local) const { return offsets_[static_cast<std::size_t>(part)] + local; }

 private:
  std::vector<NodeId> offsets_;
};

/// The first part of each of `num_machines` machines, and the end. Each machine gets a contiguous run; sizes
/// differ by at most one, and the larger runs come first. {0, 2, 3} for 3 parts on 2 machines. Throws
/// InputError if there are more machines than parts.
std::vector<int> parts_of_machines(int num_parts, int num_machines);

}  // namespace strata::graph
