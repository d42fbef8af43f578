// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/model.hpp"

#include <fmt/format.h>

#include "layers/layers.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

void check_options(const ModelOptions& options) {
  if (options.num_layers < 1)
    throw InputError(fmt::format("a model needs at least one layer, not {}", options.num_layers));
  if (options.in_cols < 1 || options.out_cols < 1 || options.hidden < 1) {
    throw InputError(
        fmt::format("a model needs at least one feature, hidden unit and class, not {}, {} and {}",
                    options.in_cols, options.hidden, options.out_cols));
  }
  for (const double probability : {options.dropout, options.input_dropout, options.attention_dropout}) {
    if (!(probability >= 0.0 && probability < 1.0)) {
      throw InputError(fmt::format("dropout is a probability in [0, 1), not {}", probability));
    }
  }
}

[[noreturn]] void refuse_projection(int layer) {
  throw Error(fmt::format("layer {} of this model cannot be projected before its sum", layer),
              "Override project() and combine() where projected_cols() is not 0.");
}

[[noreturn]] void refuse_pieces(int layer) {
  throw Error(fmt::format("layer {} of this model reads no list of neighbors piece by piece", layer),
              "Override add_piece() and finish_pieces() where traits().takes_pieces holds.");
}

}  // namespace

std::int64_t BlockModel::projected_cols(int) const { return 0; }
at::Tensor BlockModel::project(int layer, const at::Tensor&) { refuse_projection(layer); }
at::Tensor BlockModel::combine(int layer, const at::Tensor&, const sampling::Block&) {
  refuse_projection(layer);
}
at::Tensor BlockModel::forward_table(const InputTable&, const sampling::MiniBatch&, const Pass&) {
  throw Error("this model reads no table", "Override forward_table() where traits().reads_table holds.");
}
at::Tensor BlockModel::forward_apart(int layer, const at::Tensor&, const at::Tensor&,
                                     const sampling::Block&) {
  throw Error(
      fmt::format("layer {} of this model wants the dst nodes' rows first among the src nodes'", layer),
      "Override forward_apart() where traits().takes_dst_apart holds.");
}

at::Tensor BlockModel::add_piece(int layer, const at::Tensor&, const NeighborPiece&) { refuse_pieces(layer); }
at::Tensor BlockModel::finish_pieces(int layer, const at::Tensor&, const NeighborPiece&) {
  refuse_pieces(layer);
}

at::Tensor BlockModel::forward(at::Tensor x, const sampling::MiniBatch& batch, const Pass& pass) {
  if (batch.blocks.size() != static_cast<std::size_t>(num_layers())) {
    throw Error(
        fmt::format("a model of {} layers got a minibatch of {} blocks", num_layers(), batch.blocks.size()),
        "Give one fanout per layer.");
  }
  for (int layer = 0; layer < num_layers(); ++layer) {
    x = forward_layer(layer, x, batch.blocks[static_cast<std::size_t>(layer)], pass);
  }
  return x;
}

std::shared_ptr<BlockModel> make_model(const ModelOptions& options) {
  check_options(options);
  switch (options.kind) {
    case ModelKind::sage:
      return options.aggregate == Aggregate::max ? make_sage_max(options) : make_sage(options);
    case ModelKind::gcn:
      return make_gcn(options);
    case ModelKind::gat:
      return make_gat(options);
    case ModelKind::gin:
      return make_gin(options);
  }
  throw InputError(fmt::format("there is no model of kind {}", static_cast<int>(options.kind)),
                   fmt::format("Choose {}.", list_choices(enum_choices<ModelKind>())));
}

}  // namespace strata::nn
