// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sstream>
#include <string>

#include "strata/nn/model.hpp"

namespace strata::test {

/// "sage", "sage max", "gcn", "gin", "gat", "gat 3" and "gat 2,4 residual": a model, then its aggregate or
/// its heads.
inline nn::ModelOptions named_model(const std::string& name) {
  const std::size_t space = name.find(' ');
  nn::ModelOptions options{.kind = enum_value<nn::ModelKind>(name.substr(0, space), "model")};
  if (space == std::string::npos) return options;
  const std::string detail = name.substr(space + 1);
  if (options.kind == nn::ModelKind::gat) {
    options.residual = detail.ends_with(" residual");
    std::istringstream heads(detail.substr(0, detail.find(' ')));
    options.heads.clear();
    for (std::string number; std::getline(heads, number, ',');) options.heads.push_back(std::stoi(number));
  } else {
    options.aggregate = enum_value<nn::Aggregate>(detail, "aggregate");
  }
  return options;
}

}  // namespace strata::test
