// SPDX-License-Identifier: Apache-2.0
#include <build_commit.hpp>  // made by cmake/BuildCommit.cmake
#include <string_view>

#include "strata/util/system.hpp"

namespace strata {

std::string build_version() {
  constexpr std::string_view commit = STRATA_COMMIT;
  return STRATA_VERSION + (commit.empty() ? std::string() : "+g" + std::string(commit));
}

}  // namespace strata
