// Writes a random model, a small graph and the model's outputs for pyg_test.py:  pyg_export KIND FOLDER
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <exception>
#include <filesystem>

#include "strata/nn/model.hpp"
#include "strata/nn/weights.hpp"
#include "strata/util/random.hpp"
#include "support/blocks.hpp"

namespace strata::nn {
namespace {

constexpr Count kNodes = 60;

/// In-neighbours other than the node itself; every seventh node has none.
std::vector<std::vector<std::int32_t>> neighbours_of_all() {
  std::vector<std::vector<std::int32_t>> neighbours(kNodes);
  for (std::uint64_t v = 0; v < kNodes; ++v) {
    const std::uint64_t degree = v % 7 == 0 ? 0 : mix64(v) % 9;
    for (std::uint64_t j = 0; j < degree; ++j) {
      const std::uint64_t step = 1 + mix64(v * 100 + j) % (kNodes - 1);
      neighbours[v].push_back(static_cast<std::int32_t>((v + step) % kNodes));
    }
  }
  return neighbours;
}

void export_model(const std::string& kind, const std::filesystem::path& folder) {
  const ModelOptions options{
      .kind = kind, .in_cols = 9, .hidden = 16, .out_cols = 5, .num_layers = 3, .seed = 11};
  const auto model = make_model(options);
  const test::OwnedBlock graph = test::block_of(neighbours_of_all(), kNodes);
  const at::Tensor x = test::random_rows(kNodes, options.in_cols, 1);
  const c10::NoGradGuard no_grad;
  const at::Tensor biases = test::random_rows(options.num_layers, options.hidden, 2);  // GCN's start at zero
  if (kind == "gcn") {
    for (int i = 0; i < options.num_layers; ++i) {
      at::Tensor bias = model->named_parameters()[fmt::format("convs.{}.bias", i)];
      bias.copy_(biases[i].slice(0, 0, bias.numel()));
    }
  }
  const sampling::MiniBatch batch{.blocks = {3, graph.view()}, .num_seeds = kNodes};
  const at::Tensor logits = model->forward(x, batch, {});
  const at::Tensor edge_index = at::stack({graph.indices.to(at::kLong), graph.edge_dst()});
  write_tensors(folder / "model.safetensors", {.tensors = weights_of(*model), .metadata = {{"model", kind}}});
  write_tensors(folder / "expected.safetensors",
                {.tensors = {{"x", x}, {"edge_index", edge_index}, {"logits", logits}}, .metadata = {}});
}

}  // namespace
}  // namespace strata::nn

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::invalid_argument("usage: pyg_export KIND FOLDER");
    strata::nn::export_model(argv[1], argv[2]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
