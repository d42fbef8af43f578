// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <string_view>

#include "strata/comm/launcher.hpp"
#include "strata/util/types.hpp"

#if STRATA_WITH_CUDA
#include <fmt/format.h>
#include <nccl.h>
#endif

namespace strata::comm {

std::vector<std::string> library_versions() {
  std::vector<std::string> versions;
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) == MPI_SUCCESS) {
    const std::string_view all(text, at(length));
    versions.emplace_back(all.substr(0, all.find_first_of(",\n")));  // then package, ident and dates
  }
#if STRATA_WITH_CUDA
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess)
    versions.push_back(fmt::format("NCCL {}.{}.{}", version / 10000, version % 10000 / 100, version % 100));
#endif
  return versions;
}

}  // namespace strata::comm
