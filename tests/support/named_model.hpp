// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/nn/model.hpp"

namespace strata::test {

/// "sage", "sage max", "gcn", "gin", "gat" and "gat 3": a model, then its aggregate or its heads.
inline nn::ModelOptions named_model(const std::string& name) {
  const std::size_t space = name.find(' ');
  nn::ModelOptions options{.kind = enum_value<nn::ModelKind>(name.substr(0, space), "model")};
  if (space == std::string::npos) return options;
  const std::string detail = name.substr(space + 1);
  if (options.kind == nn::ModelKind::gat)
    options.heads = std::stoi(detail);
  else
    options.aggregate = enum_value<nn::Aggregate>(detail, "aggregate");
  return options;
}

}  // namespace strata::test
