// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace strata::partition {

/// The version of strata-partition: "0.2.0, commit 1a2b3c4 (METIS 5.1.0, HDF5 1.10.8)".
std::string program_version();

}  // namespace strata::partition
