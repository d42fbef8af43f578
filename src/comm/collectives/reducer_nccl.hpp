// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/reducer.hpp"

namespace strata::comm {

/// Only in CUDA builds. Collective over `world`. REQUIRES: every rank of `world` has a GPU of its own.
std::unique_ptr<AllReducer> make_nccl_reducer(const Communicator& world, Device device, int most_blocks);

}  // namespace strata::comm
