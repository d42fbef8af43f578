// SPDX-License-Identifier: Apache-2.0
#include "strata/doctor/finding.hpp"

#include <algorithm>

namespace strata::doctor {

std::string remedy_page(Remedy remedy) { return "docs/troubleshooting.md#" + std::string(enum_name(remedy)); }

int exit_code(const std::vector<Finding>& findings) {
  int code = 0;
  for (const Finding& finding : findings) code = std::max(code, static_cast<int>(finding.level));
  return code;
}

}  // namespace strata::doctor
