// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "multilevel/loads.hpp"

namespace strata::partition {

struct JetRound {
  double temperature = 0;
  bool damped = false;  ///< half of the nodes rest
  int number = 0;
};

/// Nodes, ascending, and the parts that they move to.
struct JetMoves {
  std::vector<std::int32_t> nodes, to;
};

struct JetChange {
  Count moved = 0;  ///< nodes that lie elsewhere
  Count cut = 0;    ///< growth of the cut
};

/// The steps of refine_jet() that scan edges: on the CPU's threads or on a GPU, with the same results. They
/// begin with a partition, which the caller keeps up to date.
class JetSteps {
 public:
  virtual ~JetSteps() = default;

  /// The weight of the edges between parts.
  virtual Count cut() = 0;
  /// Lets nodes move again that moved last.
  virtual void unlock() = 0;
  /// The nodes that move in this round; the caller moves them. They rest in the next one.
  virtual JetMoves choose(const JetRound& round) = 0;
  /// Notes that the caller has put these nodes into other parts.
  virtual void place(const std::vector<std::int32_t>& nodes) = 0;
  /// Returns the change since the last call. `touched` has all nodes that have moved since, maybe
  /// repeatedly, and maybe others.
  virtual JetChange account(std::vector<std::int32_t> touched) = 0;
};

}  // namespace strata::partition
