// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// A step whose loss was NaN or infinite, as one rank knows it.
struct NotFinite {
  int epoch = 0;              ///< 1-based
  Count step = 0;             ///< 1-based, in the epoch
  bool mine = false;          ///< whether this rank's own part of the loss was not finite
  std::vector<NodeId> seeds;  ///< original ids of this rank's seeds
};

/// The same text on every rank: which step it was, which ranks had such a loss, and their seeds. Collective.
std::string describe(const NotFinite& found, const comm::Communicator& communicator);

}  // namespace strata::train
