// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/model.hpp"

#include <fmt/format.h>

#include "layers/layers.hpp"
#include "no_layers.hpp"
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
  if (options.types.several() && !takes_types(options.kind))
    throw InputError(
        fmt::format("{} takes graphs of one type of nodes and edges, but this one has {} and {}",
                    enum_name(options.kind), options.types.nodes.size(), options.types.edges.size()),
        "Give --model rgcn, rsage, rgat or hgt.");
  for (const double probability : {options.dropout, options.input_dropout, options.attention_dropout}) {
    if (!(probability >= 0.0 && probability < 1.0)) {
      throw InputError(fmt::format("dropout is a probability in [0, 1), not {}", probability));
    }
  }
}

}  // namespace

at::Tensor BlockModel::project(int layer, const at::Tensor&) {
  throw Error(fmt::format("layer {} of this model cannot project", layer),
              "Override project() and evaluate() where LayerCols::projected is not 0.");
}

at::Tensor BlockModel::evaluate(int layer, const ExactInput& input) {
  if (!input.projected && !input.own.defined() && !input.piece)
    return forward_layer(layer, input.rows, input.block, {});
  throw Error(
      fmt::format("layer {} of this model takes neither projected rows nor parts of its input", layer),
      "Override evaluate() where the model projects or has traits that ask for it.");
}

at::Tensor BlockModel::forward(at::Tensor x, const sampling::MiniBatch& batch, const Pass& pass) {
  if (batch.blocks.size() != at(num_layers())) {
    throw Error(
        fmt::format("a model of {} layers got a minibatch of {} blocks", num_layers(), batch.blocks.size()),
        "Give one fanout per layer.");
  }
  for (int layer = 0; layer < num_layers(); ++layer) {
    x = forward_layer(layer, x, batch.blocks[at(layer)], pass);
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
    case ModelKind::rgcn:
      return make_rgcn(options);
    case ModelKind::rsage:
      return make_rsage(options);
    case ModelKind::rgat:
      return make_rgat(options);
    case ModelKind::hgt:
      return make_hgt(options);
    case ModelKind::none:
      return make_no_layers(options);
  }
  throw InputError(fmt::format("there is no model of kind {}", static_cast<int>(options.kind)),
                   fmt::format("Choose {}.", list_choices(enum_choices<ModelKind>())));
}

}  // namespace strata::nn
