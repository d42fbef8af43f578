// SPDX-License-Identifier: Apache-2.0
#include "strata/torch_ranks/torch_ranks.hpp"
#include "support/start_ranks.hpp"

namespace strata::test {

std::shared_ptr<comm::Backend> start_ranks(int* argc, char*** argv) {
  return torch_ranks::backend_of_launcher(argc, argv);
}

}  // namespace strata::test
