// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace strata {

/// "0.2.0", or "0.2.0, commit 1a2b3c4" where the build knows its commit; a "+" follows a changed one.
std::string build_version();

}  // namespace strata
