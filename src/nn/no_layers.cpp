// SPDX-License-Identifier: Apache-2.0
#include "no_layers.hpp"

#include <fmt/format.h>

#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

class NoLayers final : public BlockModel {
 public:
  explicit NoLayers(std::int64_t cols) : BlockModel({{.output = cols}}) {}
  ModelTraits traits() const override {
    return {.reads_neighbors = false, .needs_transpose = false, .tolerates_padding = true};
  }
  at::Tensor forward_layer(int, const at::Tensor& x, const sampling::Block& block, const Pass&) override {
    return x.narrow(0, 0, block.num_dst);
  }
};

}  // namespace

std::shared_ptr<BlockModel> make_no_layers(const ModelOptions& options) {
  if (options.num_layers != 1 || options.in_cols != options.out_cols)
    throw InputError(fmt::format("a model without layers has {} layers, {} columns of input and {} of output",
                                 options.num_layers, options.in_cols, options.out_cols),
                     "Give as many columns of both, and one fanout.");
  return std::make_shared<NoLayers>(options.in_cols);
}

}  // namespace strata::nn
