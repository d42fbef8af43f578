// SPDX-License-Identifier: Apache-2.0
// Writes a random model, a small graph and the model's outputs for pyg_test.py:  pyg_export KIND FOLDER
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <string>

#include "strata/nn/model.hpp"
#include "strata/nn/weights.hpp"
#include "strata/util/random.hpp"
#include "support/blocks.hpp"
#include "support/named_model.hpp"
#include "support/typed_blocks.hpp"

namespace strata::nn {
namespace {

constexpr Count kNodes = 60;

/// In-neighbors other than the node itself; every seventh node has none.
std::vector<std::vector<std::int32_t>> neighbors_of_all() {
  std::vector<std::vector<std::int32_t>> neighbors(kNodes);
  for (std::uint64_t v = 0; v < kNodes; ++v) {
    const std::uint64_t degree = v % 7 == 0 ? 0 : mix64(v) % 9;
    for (std::uint64_t j = 0; j < degree; ++j) {
      const std::uint64_t step = 1 + mix64(v * 100 + j) % (kNodes - 1);
      neighbors[v].push_back(static_cast<std::int32_t>((v + step) % kNodes));
    }
  }
  return neighbors;
}

void export_model(std::string name, const std::filesystem::path& folder) {
  std::ranges::replace(name, '-', ' ');
  ModelOptions options = test::named_model(name);
  options.in_cols = 9;
  options.hidden = 16;
  options.out_cols = 5;
  options.num_layers = 3;
  options.seed = 11;
  const bool typed = takes_types(options.kind);
  if (typed) options.types = test::citation_types();
  const auto model = make_model(options);
  const test::TypedBlock of_types = test::random_typed_block(test::citation_types(), kNodes, kNodes, 5);
  const test::OwnedBlock graph = typed ? of_types.block : test::block_of(neighbors_of_all(), kNodes);
  const at::Tensor x = test::random_rows(kNodes, options.in_cols, 1);
  const c10::NoGradGuard no_grad;
  const at::Tensor changes = test::random_rows(100, 3 * options.hidden, 2);
  for (int i = 0; const auto& parameter : model->named_parameters()) {  // some start at zero
    if (parameter.value().dim() == 1)
      parameter.value().add_(changes[i++].slice(0, 0, parameter.value().numel()));
  }
  const sampling::MiniBatch batch{.blocks = {3, typed ? of_types.view() : graph.view()}, .num_seeds = kNodes};
  const at::Tensor logits = model->forward(x, batch, {});
  const at::Tensor edge_index = at::stack({graph.indices.to(at::kLong), graph.edge_dst()});
  write_tensors(folder / "model.safetensors",
                {.tensors = weights_of(*model),
                 .metadata = {{"model", std::string(enum_name(options.kind))},
                              {"aggregate", std::string(enum_name(options.aggregate))},
                              {"heads", fmt::format("{}", fmt::join(options.heads, ","))},
                              {"residual", options.residual ? "true" : "false"}}});
  write_tensors(folder / "expected.safetensors", {.tensors = {{"x", x},
                                                              {"edge_index", edge_index},
                                                              {"logits", logits},
                                                              {"ids", graph.original_ids},
                                                              {"relations", of_types.relations}},
                                                  .metadata = {}});
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
