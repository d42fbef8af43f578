// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/util/types.hpp"

namespace strata::test {

inline std::vector<NodeId> ids_of(const IdSpan& span) {
  std::vector<NodeId> ids;
  for (Count i = 0; i < span.size; ++i) ids.push_back(span[i]);
  return ids;
}

}  // namespace strata::test
