// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "support/reference_sampler.hpp"

namespace strata::test {

/// Which node chooses among which of its neighbors, at which hop of which batch.
struct Choice {
  const PlainGraph& graph;
  NodeId node;
  int fanout;
  BatchKey key;
  std::uint32_t hop;
  Count begin = 0, end = 0;  ///< entries of the graph's lists
  RelationId relation = 0;

  Count degree() const { return end - begin; }
};

/// What every method but the plain uniform one promises, said by sorting and searching: places within these
/// entries, in the order of its picks.
std::vector<Count> replacing_positions(const Choice& choice);
std::vector<Count> weighted_positions(const Choice& choice);
std::vector<Count> weighted_replacing_positions(const Choice& choice);
std::vector<Count> labor_positions(const Choice& choice, bool layer_dependent);

}  // namespace strata::test
