// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "layers/op_support.hpp"
#include "layers/relation_model.hpp"
#include "layers/sage_layer.hpp"
#include "strata/nn/grouped_product.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

constexpr Count kBf16Alignment = 8;  // of the groups of a grouped product on a GPU

at::Tensor ends_at_types(const graph::GraphTypes& types) {
  const auto relations = static_cast<std::int64_t>(types.edges.size());
  at::Tensor into = at::zeros({static_cast<std::int64_t>(types.nodes.size()), relations});
  for (std::int64_t r = 0; r < relations; ++r) {
    const auto type = std::ranges::find(types.nodes, types.edges[at(r)].destination) - types.nodes.begin();
    into[type][r] = 1;
  }
  return into;
}

}  // namespace

RelationModel::RelationModel(const ModelOptions& options, std::vector<LayerCols> layers)
    : StackedModel(options, std::move(layers)),
      ranges_(options.types),
      into_types_(ends_at_types(options.types)) {
  traits_ = {.needs_types = options.types.several(), .needs_transpose = false, .tolerates_padding = true};
}

Count RelationModel::alignment(const at::Tensor& x, const Pass& pass) const {
  return x.is_cuda() && type_of(pass) == at::kBFloat16 ? kBf16Alignment : 1;
}

std::shared_ptr<const RelationRows> RelationModel::rows_of(const at::Tensor& x, const Block& block,
                                                           const Pass& pass) const {
  return make_relation_rows(ranges_.relations(block),
                            {.transpose = needs_gradient(x), .alignment = alignment(x, pass)});
}

std::shared_ptr<const RelationRows> RelationModel::pairs_of(const LabelledEdges& edges, const at::Tensor& x,
                                                            const Pass& pass) const {
  return make_relation_rows(reversed(edges), {.transpose = true, .alignment = alignment(x, pass)});
}

AttentionOver RelationModel::attention_from(const std::shared_ptr<const RelationRows>& pairs, int layer,
                                            const Block& block, const Pass& pass,
                                            const RelationRows* dst_rows) const {
  AttentionOver over{
      .block = reversed(pairs->neighbors), .keep_alive = pairs, .heads = options().heads_of(layer)};
  DropoutRule rule = make_dropout(options().attention_dropout, pass, hop_of_dst(layer), block);
  if (!rule.active()) return over;
  const at::Tensor ids = original_ids_of(block), of_pairs = values_of_rows(ids, *pairs),
                   relations = labels_of(*pairs),
                   of_dst =
                       dst_rows == nullptr ? ids : values_of_rows(ids.narrow(0, 0, block.num_dst), *dst_rows);
  rule.ids = of_pairs.const_data_ptr<std::int64_t>();
  over.dropout = {.rule = rule,
                  .dst_ids = of_dst.const_data_ptr<std::int64_t>(),
                  .relations = relations.const_data_ptr<std::int32_t>()};
  over.arrays = {of_pairs, relations, of_dst};
  return over;
}

bool RelationModel::needs_gradient(const at::Tensor& x) {
  return x.requires_grad() && c10::GradMode::is_enabled();
}

at::Tensor RelationModel::map_by_type(const at::Tensor& x, const at::Tensor& weights, const Block& block,
                                      const Pass& pass) const {
  const at::ScalarType type = type_of(pass);
  const at::Tensor own = x.narrow(0, 0, block.num_dst).to(type);
  if (ranges_.num_types() == 1) return own.mm(weights[0].to(type));
  const auto rows =
      make_relation_rows(ranges_.types_of_dst(block), {.transpose = false, .alignment = alignment(x, pass)});
  const at::Tensor by_type = sum_over(own, reversed(rows->nodes), rows);
  return sum_over(grouped_product(by_type, weights.to(type), rows->ends), rows->nodes, rows);
}

const at::Tensor& RelationModel::into_types(const at::Tensor& like) const {
  if (into_types_.device() != like.device()) into_types_ = into_types_.to(like.device());
  return into_types_;
}

at::Tensor RelationModel::is_reached(const at::Tensor& like) const {
  return into_types(like).sum(1).clamp_max(1);
}

at::Tensor RelationModel::sum_into_types(const at::Tensor& of_relations) const {
  const at::Tensor& into = into_types(of_relations);
  std::vector<std::int64_t> sizes = of_relations.sizes().vec();
  sizes.front() = into.size(0);
  return into.mm(of_relations.flatten(1)).view(sizes);
}

at::Tensor RelationModel::rows_by_type(const at::Tensor& of_types, const Block& block) const {
  if (ranges_.num_types() == 1) return of_types.expand({block.num_dst, of_types.size(1)});
  const at::Tensor types = at::arange(ranges_.num_types(), options_of(block).dtype(at::kInt));
  const at::Tensor is_of = ranges_.types_of_dst(block).labels.unsqueeze(1).eq(types);
  return is_of.to(at::kFloat).mm(of_types);
}

at::Tensor RelationModel::add_by_type(const at::Tensor& z, const at::Tensor& of_types,
                                      const Block& block) const {
  return z.add(rows_by_type(of_types, block));
}

std::string module_name(const graph::EdgeType& relation) {
  std::string name = fmt::format("<{}___{}___{}>", relation.source, relation.name, relation.destination);
  std::ranges::replace(name, '.', '#');
  return name;
}

HeteroConv::HeteroConv(const std::vector<graph::EdgeType>& relations,
                       const std::vector<std::shared_ptr<torch::nn::Module>>& convs) {
  const auto list = register_module("convs", std::make_shared<torch::nn::Module>());
  for (std::size_t r = 0; r < relations.size(); ++r)
    list->register_module(module_name(relations[r]), convs[r]);
}

at::Tensor stack_maps(const std::vector<at::Tensor>& weights) { return at::stack(weights).transpose(1, 2); }

namespace {

/// PyG's RGCNConv: for each relation a matrix of the mean of its neighbors, and one of the node itself.
struct RgcnLayer : torch::nn::Module {
  RgcnLayer(std::int64_t in, std::int64_t out, const ModelOptions& options, int layer) {
    const auto relations = static_cast<std::int64_t>(options.types.edges.size());
    const auto values = [&](at::IntArrayRef sizes, std::int64_t both, int index) {
      return glorot(sizes, both, {.seed = options.seed, .layer = layer, .index = index});
    };
    const std::int64_t matrices = options.num_bases > 0 ? options.num_bases : relations;
    weight = register_parameter("weight", values({matrices, in, out}, in + out, 0));
    if (options.num_bases > 0)
      comp = register_parameter("comp",
                                values({relations, options.num_bases}, relations + options.num_bases, 2));
    root = register_parameter("root", values({in, out}, in + out, 1));
    bias = register_parameter("bias", at::zeros({out}));
  }

  at::Tensor of_relations() const {
    if (!comp.defined()) return weight;
    return comp.mm(weight.flatten(1)).view({comp.size(0), weight.size(1), weight.size(2)});
  }

  at::Tensor weight, comp, root, bias;
};

class RgcnModel final : public RelationModel {
 public:
  explicit RgcnModel(const ModelOptions& options) : RelationModel(options, options.layers()) {
    traits_.takes_edge_weights = true;
    for (int i = 0; i < num_layers(); ++i)
      layers_.push_back(std::make_shared<RgcnLayer>(input_cols(i), output_cols(i), options, i));
    register_layers({layers_.begin(), layers_.end()});
  }

 private:
  at::Tensor convolve(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const at::ScalarType type = type_of(pass);
    const RgcnLayer& of = *layers_[at(layer)];
    const auto rows = rows_of(x, block, pass);
    const at::Tensor mapped =
        grouped_product(mean_of_neighbors(type, x, rows), of.of_relations().to(type), rows->ends);
    return sum_over(mapped, rows->nodes, rows)
        .addmm(x.narrow(0, 0, block.num_dst).to(type), of.root.to(type));
  }

  const at::Tensor& bias(int layer) const override { return layers_[at(layer)]->bias; }

  std::vector<std::shared_ptr<RgcnLayer>> layers_;
};

/// PyG's HeteroConv of a SAGEConv for each relation, summed.
class RsageModel final : public RelationModel {
 public:
  explicit RsageModel(const ModelOptions& options) : RelationModel(options, options.layers()) {
    traits_.takes_edge_weights = true;
    const std::vector<graph::EdgeType>& relations = options.types.edges;
    std::vector<std::shared_ptr<torch::nn::Module>> layers;
    for (int i = 0; i < num_layers(); ++i) {
      std::vector<std::shared_ptr<SageLayer>> convs;
      for (std::size_t r = 0; r < relations.size(); ++r)
        convs.push_back(std::make_shared<SageLayer>(input_cols(i), output_cols(i), options.seed, i,
                                                    parameter_index(r, 3, 0)));
      layers.push_back(std::make_shared<HeteroConv>(
          relations, std::vector<std::shared_ptr<torch::nn::Module>>(convs.begin(), convs.end())));
      layers_.push_back(std::move(convs));
    }
    register_layers(layers);
  }

 private:
  at::Tensor convolve(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const at::ScalarType type = type_of(pass);
    std::vector<at::Tensor> of_neighbors, roots, biases;
    for (const auto& conv : layers_[at(layer)]) {
      of_neighbors.push_back(conv->neighbors->weight);
      roots.push_back(conv->root->weight);
      biases.push_back(conv->neighbors->bias);
    }
    const auto rows = rows_of(x, block, pass);
    const at::Tensor mapped =
        grouped_product(mean_of_neighbors(type, x, rows), stack_maps(of_neighbors).to(type), rows->ends);
    const at::Tensor own = map_by_type(x, sum_into_types(stack_maps(roots)), block, pass);
    return add_by_type(sum_over(mapped, rows->nodes, rows).add(own), sum_into_types(at::stack(biases)), block)
        .to(type);
  }

  const at::Tensor& bias(int) const override { return none_; }

  std::vector<std::vector<std::shared_ptr<SageLayer>>> layers_;
  at::Tensor none_;  // biases are those of relations
};

}  // namespace

std::shared_ptr<BlockModel> make_rgcn(const ModelOptions& options) {
  const auto relations = static_cast<int>(options.types.edges.size());
  if (options.num_bases < 0 || options.num_bases > relations)
    throw InputError(
        fmt::format("{} bases for {} relations", options.num_bases, relations),
        "Give fewer bases than there are relations, or 0: a matrix of its own for each relation.");
  return std::make_shared<RgcnModel>(options);
}

std::shared_ptr<BlockModel> make_rsage(const ModelOptions& options) {
  return std::make_shared<RsageModel>(options);
}

}  // namespace strata::nn
