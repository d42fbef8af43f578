// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <hdf5.h>

#include "parts/hdf5_handles.hpp"
#include "strata/graph/graph.hpp"

namespace strata::graph {

std::string hdf5_version() {
  const auto lock = h5::lock_library();
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("HDF5 {}.{}.{}", major, minor, release);
}

}  // namespace strata::graph
