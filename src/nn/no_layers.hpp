// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/nn/model.hpp"

namespace strata::nn {

/// A model without parameters, whose one layer passes on the rows of its nodes: for learned rows that a decoder reads.
std::shared_ptr<BlockModel> make_no_layers(const ModelOptions& options);

}  // namespace strata::nn
