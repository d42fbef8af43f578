// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/reducer.hpp"

namespace strata::comm {

/// Makes a reducer over NCCL, in CUDA builds only. Collective over `world`. REQUIRES: one GPU per rank of it.
std::unique_ptr<AllReducer> make_nccl_reducer(const Communicator& world, Device device, int most_blocks);

}  // namespace strata::comm
