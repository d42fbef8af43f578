// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_plugin.hpp"

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include <string_view>

#include "strata/util/types.hpp"

namespace strata::comm {
namespace {

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return {};
  const std::string_view all(text, at(length));
  std::string version(all.substr(0, all.find_first_of(",\n")));  // then package, ident and dates
  // "MPICH Version:      4.0.2"
  if (const std::size_t colon = version.find(" Version:"); colon != std::string::npos)
    version.replace(colon, version.find_last_of(" \t") - colon, "");
  return version;
}

bool is_cuda_aware() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

}  // namespace
}  // namespace strata::comm

extern "C" {
extern const strata::comm::MpiPlugin strata_mpi_plugin;
const strata::comm::MpiPlugin strata_mpi_plugin{.backend = &strata::comm::open_mpi_world,
                                                .library_version = &strata::comm::library_version,
                                                .is_cuda_aware = &strata::comm::is_cuda_aware};
}
