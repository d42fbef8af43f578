// SPDX-License-Identifier: Apache-2.0
#include "version.hpp"

#include <fmt/format.h>
#include <metis.h>

#include "strata/graph/graph.hpp"
#include "strata/util/system.hpp"

namespace strata::partition {

std::string program_version() {
  return fmt::format("{} (METIS {}.{}.{}, {})", build_version(), METIS_VER_MAJOR, METIS_VER_MINOR,
                     METIS_VER_SUBMINOR, graph::hdf5_version());
}

}  // namespace strata::partition
