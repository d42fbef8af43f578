// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace strata::cuda {

/// {"CUDA 13.0", "CUDA driver 13.0"}: the runtime, and the newest that the driver knows, where there is one.
/// Empty in builds without CUDA.
std::vector<std::string> library_versions();

}  // namespace strata::cuda
