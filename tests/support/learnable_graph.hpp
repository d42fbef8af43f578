// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/graph/graph.hpp"

namespace strata::test {

/// Papers with labels in four classes, authors whose features tell the classes of their papers, and venues
/// without features. One of five relations has no edges. The same graph for the same seed.
std::unique_ptr<graph::Graph> learnable_graph(std::uint64_t seed);

}  // namespace strata::test
