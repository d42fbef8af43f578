// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace strata::train {

/// {"libtorch 2.11.0", "Open MPI v4.1.4", "NCCL 2.28.9", "CUDA 13.0", "HDF5 1.10.8"}: the libraries of this
/// process. METIS is not among them: parts record which one made them.
std::vector<std::string> library_versions();

}  // namespace strata::train
