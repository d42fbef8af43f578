// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/backend.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace strata::comm {

std::string Backend::Member::who() const { return fmt::format("rank {}, host {}", world_rank, host); }

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace strata::comm
