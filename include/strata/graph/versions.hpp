// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace strata::graph {

/// Name and version of the library that this process has loaded: "HDF5 1.10.8".
std::string hdf5_version();

}  // namespace strata::graph
