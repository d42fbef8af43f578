// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace strata::comm {

/// {"Open MPI v4.1.4", "NCCL 2.28.9"}: the libraries that this process has loaded. MPI need not run yet.
std::vector<std::string> library_versions();

}  // namespace strata::comm
