// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "strata/graph/part_file.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// A split of edges into those that are trained on, and those that are held out for validation and for tests. It is
/// keyed by the original ids of their ends, so that it depends on neither parts nor ranks, and all edges between
/// two nodes, in both directions, are in the same split.
struct EdgeSplit {
  std::uint64_t seed = 0;
  double valid = 0, test = 0;  ///< shares of the pairs of nodes

  bool holds_out() const { return valid > 0 || test > 0; }
  Split of(NodeId a, NodeId b) const {
    constexpr BatchKey kNoStep{.seed = 0, .epoch = ~std::uint32_t{0}, .step = 0};
    BatchKey key = kNoStep;
    key.seed = seed;
    const std::uint64_t low = node_key(key, RandomUse::epoch_order, 1, std::min(a, b));
    const double point = unit_double(mix64(low ^ mix64(static_cast<std::uint64_t>(std::max(a, b)))));
    return point < valid ? Split::valid : point < valid + test ? Split::test : Split::train;
  }
};

}  // namespace strata::graph
