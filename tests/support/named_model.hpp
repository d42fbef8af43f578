// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sstream>
#include <string>

#include "strata/nn/model.hpp"

namespace strata::test {

/// "sage", "sage max", "gcn", "gin", "gat", "gat 3", "gat 2,4 residual", "rgat 2" and "rgcn bases": a model,
/// then its aggregate, its heads, or two bases.
inline nn::ModelOptions named_model(const std::string& name) {
  const std::size_t space = name.find(' ');
  nn::ModelOptions options{.kind = enum_value<nn::ModelKind>(name.substr(0, space), "model")};
  if (space == std::string::npos) return options;
  const std::string detail = name.substr(space + 1);
  if (nn::has_heads(options.kind)) {
    options.residual = detail.ends_with(" residual");
    std::istringstream heads(detail.substr(0, detail.find(' ')));
    options.heads.clear();
    for (std::string number; std::getline(heads, number, ',');) options.heads.push_back(std::stoi(number));
  } else if (detail == "bases") {
    options.num_bases = 2;
  } else {
    options.aggregate = enum_value<nn::Aggregate>(detail, "aggregate");
  }
  return options;
}

}  // namespace strata::test
