// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ostream>
#include <vector>

#include "strata/sampling/sampler.hpp"

namespace strata::test {

/// One way to choose neighbors.
struct MethodCase {
  sampling::Method method;
  bool replace = false;
  bool layer_dependent = false;

  sampling::SamplerOptions options(std::vector<int> fanouts, Count max_seeds) const {
    return {.fanouts = std::move(fanouts),
            .method = method,
            .replace = replace,
            .layer_dependent = layer_dependent,
            .max_seeds = max_seeds,
            .edge_ids = true,
            .in_degrees = true,
            .transpose = true,
            .sorted_inputs = true};
  }
};

inline std::ostream& operator<<(std::ostream& out, const MethodCase& c) {
  return out << (c.method == sampling::Method::uniform    ? "uniform"
                 : c.method == sampling::Method::weighted ? "weighted"
                                                          : "labor")
             << (c.replace ? "_replacing" : "") << (c.layer_dependent ? "_dependent" : "");
}

inline std::vector<MethodCase> all_methods() {
  using sampling::Method;
  return {{Method::uniform},        {Method::uniform, true},       {Method::weighted},
          {Method::weighted, true}, {Method::labor, false, false}, {Method::labor, false, true}};
}

}  // namespace strata::test
