// SPDX-License-Identifier: Apache-2.0
// A model of one's own in a program that does what strata-train does: README.md.
#include <torch/torch.h>

#include "strata/cli/program.hpp"

using strata::nn::ModelOptions, strata::nn::Pass, strata::sampling::Block;

/// The mean of the sampled in-neighbors' rows, or 0 if there are none. It uses only libtorch's differentiable
/// operations.
at::Tensor mean_of_neighbors(const at::Tensor& x, const Block& block) {
  const auto on_device = at::TensorOptions().device(x.device());
  const at::Tensor begins = at::from_blob(const_cast<strata::Count*>(block.indptr), {block.num_dst + 1},
                                          on_device.dtype(at::kLong));
  const at::Tensor sources =
      at::from_blob(const_cast<std::int32_t*>(block.indices), {block.num_edges}, on_device.dtype(at::kInt));
  constexpr int kMean = 1;
  return std::get<0>(at::embedding_bag(x, sources.to(at::kLong), begins, false, kMean, false, {},
                                       /*include_last_offset=*/true));
}

/// Layers of relu(norm(W [x of the node | mean of its neighbors])), the last without norm and activation.
class OwnModel final : public strata::nn::BlockModel {
 public:
  explicit OwnModel(const ModelOptions& options) : BlockModel(options.layers()) {
    torch::manual_seed(options.seed);  // every rank must begin with the same weights
    for (int layer = 0; layer < options.num_layers; ++layer) {
      const std::int64_t in_cols = layer == 0 ? options.in_cols : options.hidden;
      maps_->push_back(torch::nn::Linear(2 * in_cols, output_cols(layer)));
      norms_->push_back(torch::nn::BatchNorm1d(output_cols(layer)));
    }
    register_module("maps", maps_);
    register_module("norms", norms_);
  }

  at::Tensor forward_layer(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const auto index = static_cast<std::size_t>(layer);
    const at::Tensor both = at::cat({x.narrow(0, 0, block.num_dst), mean_of_neighbors(x, block)}, 1);
    const at::Tensor z = maps_[index]->as<torch::nn::Linear>()->forward(both);
    if (layer + 1 == num_layers()) return z;
    const auto& norm = *norms_[index]->as<torch::nn::BatchNorm1d>();
    // A single row has no variance.
    const bool by_batch = pass.training && z.size(0) > 1;
    return at::batch_norm(z, norm.weight, norm.bias, norm.running_mean, norm.running_var, by_batch, 0.1, 1e-5,
                          false)
        .relu();
  }

 private:
  torch::nn::ModuleList maps_, norms_;
};

int main(int argc, char** argv) {
  const auto make = [](const ModelOptions& options) { return std::make_shared<OwnModel>(options); };
  return strata::cli::run_program(argc, argv, {.name = "own_model", .own_model = "own", .make_model = make});
}
