// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// A step whose loss came out as NaN or infinity, as one rank knows it.
struct NotFinite {
  int epoch = 0;              ///< 1-based
  Count step = 0;             ///< 1-based, in the epoch
  bool mine = false;          ///< was this rank's own part of the loss not finite?
  std::vector<NodeId> seeds;  ///< this rank's, original ids
};

/// Says on every rank which step it was, which ranks had such a loss, and their seeds. Collective.
std::string describe(const NotFinite& found, const comm::Communicator& communicator);

}  // namespace strata::train
