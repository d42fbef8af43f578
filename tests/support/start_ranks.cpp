// SPDX-License-Identifier: Apache-2.0
#include "support/start_ranks.hpp"

namespace strata::test {

std::shared_ptr<comm::Backend> start_ranks(int* argc, char*** argv) {
  return comm::find_launcher() == comm::Launcher::mpi ? comm::mpi_backend(argc, argv) : comm::solo_backend();
}

}  // namespace strata::test
