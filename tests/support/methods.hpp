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
  bool new_nodes_only = false;

  sampling::SamplerOptions options(std::vector<int> fanouts, Count max_seeds) const {
    return {.fanouts = std::move(fanouts),
            .method = method,
            .replace = replace,
            .layer_dependent = layer_dependent,
            .new_nodes_only = new_nodes_only,
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
             << (c.replace ? "_replacing" : "") << (c.layer_dependent ? "_dependent" : "")
             << (c.new_nodes_only ? "_new" : "");
}

inline std::vector<MethodCase> all_methods() {
  using sampling::Method;
  return {{Method::uniform},
          {Method::uniform, true},
          {Method::weighted},
          {Method::weighted, true},
          {Method::labor},
          {Method::labor, false, true},
          {Method::uniform, false, false, true},
          {Method::weighted, true, false, true},
          {Method::labor, false, true, true}};
}

}  // namespace strata::test
