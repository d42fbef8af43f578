// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/reducer.hpp"

namespace strata::comm {

/// In CUDA builds alone. REQUIRES: every rank of `world` has a GPU of its own. Collective.
std::unique_ptr<AllReducer> make_nccl_reducer(const Communicator& world, Device device);

}  // namespace strata::comm
