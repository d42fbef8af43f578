// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_plugin.hpp"
#include "strata/comm/launcher.hpp"
#include "strata/util/error.hpp"

#if STRATA_WITH_CUDA
#include <fmt/format.h>
#include <nccl.h>
#endif

namespace strata::comm {

std::vector<std::string> library_versions() {
  std::vector<std::string> versions;
  if (const MpiPlugin* mpi = find_mpi()) versions.push_back(mpi->library_version());
#if STRATA_WITH_CUDA
  try {
    int version = 0;
    if (ncclGetVersion(&version) == ncclSuccess)
      versions.push_back(fmt::format("NCCL {}.{}.{}", version / 10000, version % 10000 / 100, version % 100));
  } catch (const CommError&) {  // there is no NCCL here
  }
#endif
  return versions;
}

}  // namespace strata::comm
