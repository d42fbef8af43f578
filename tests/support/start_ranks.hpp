// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/backend.hpp"

namespace strata::test {

/// All ranks of a test, over MPI if it started them, else one rank on its own. In programs that link
/// strata::test_start or strata::test_ranks also over torch.distributed.
std::shared_ptr<comm::Backend> start_ranks(int* argc, char*** argv);

}  // namespace strata::test
