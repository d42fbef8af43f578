// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layers/op_support.hpp"
#include "layers/relation_model.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/nn/grouped_product.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

/// Parameters, or modules, by the names of types or relations.
struct Named : torch::nn::Module {
  static std::string without_dots(std::string name) {
    std::ranges::replace(name, '.', '#');
    return name;
  }
};

/// Parameters of PyG's HGTConv.
struct HgtLayer : torch::nn::Module {
  HgtLayer(std::int64_t in, const ModelOptions& options, int layer)
      : heads(options.heads_of(layer)), head_cols(options.hidden / heads) {
    const std::int64_t out = options.hidden;
    const auto relations = static_cast<std::int64_t>(options.types.edges.size());
    int index = 0;
    const auto uniform = [&](at::IntArrayRef sizes, std::int64_t fan_in) {
      return keyed_uniform(sizes, 1.0 / std::sqrt(static_cast<double>(fan_in)),
                           {.seed = options.seed, .layer = layer, .index = index++});
    };
    const auto linears = [&](const std::string& name, std::int64_t cols, std::int64_t rows) {
      const auto list = register_module(name, std::make_shared<Named>())
                            ->register_module("lins", std::make_shared<Named>());
      std::vector<std::shared_ptr<Linear>> made;
      for (const std::string& type : options.types.nodes) {
        made.push_back(std::make_shared<Linear>(uniform({rows, cols}, cols), uniform({rows}, cols)));
        list->register_module(Named::without_dots(type), made.back());
      }
      return made;
    };
    const auto of_relations = [&](const std::string& name) {
      const auto matrices = uniform({heads * relations, head_cols, head_cols}, head_cols);
      return register_module(name, std::make_shared<Linear>(matrices, at::Tensor()))->weight;
    };
    kqv = linears("kqv_lin", in, 3 * out);
    out_maps = linears("out_lin", out, out);
    k_rel = of_relations("k_rel");
    v_rel = of_relations("v_rel");
    const auto skips = register_module("skip", std::make_shared<Named>());
    for (const std::string& type : options.types.nodes)
      skip.push_back(skips->register_parameter(Named::without_dots(type), at::ones({1})));
    const auto priors = register_module("p_rel", std::make_shared<Named>());
    for (const graph::EdgeType& r : options.types.edges)
      p_rel.push_back(
          priors->register_parameter(Named::without_dots(graph::joined_name_of(r)), at::ones({1, heads})));
  }

  std::int64_t heads, head_cols;
  std::vector<std::shared_ptr<Linear>> kqv, out_maps;  ///< by type
  at::Tensor k_rel, v_rel;                             ///< [heads * relations, head_cols, head_cols]
  std::vector<at::Tensor> skip, p_rel;                 ///< by type, by relation
};

/// A column of ones, so that a product adds a bias, and of zeros behind it up to `columns`.
at::Tensor with_ones(const at::Tensor& x, Count columns) {
  return at::cat({x, at::constant_pad_nd(at::ones({x.size(0), 1}, x.options()), {0, columns - 1})}, 1);
}

/// [types, in + columns, out] for rows with_ones().
at::Tensor maps_with_bias(const std::vector<std::shared_ptr<Linear>>& linears, Count columns) {
  std::vector<at::Tensor> maps;
  for (const auto& linear : linears)
    maps.push_back(at::cat(
        {linear->weight.t(), at::constant_pad_nd(linear->bias.unsqueeze(0), {0, 0, 0, columns - 1})}, 0));
  return at::stack(maps);
}

/// PyG's HGTConv ("Heterogeneous graph transformer", WWW 2020), and a linear map of the last one's output.
class HgtModel final : public RelationModel {
 public:
  explicit HgtModel(const ModelOptions& options) : RelationModel(options, options.layers()) {
    for (int i = 0; i < num_layers(); ++i)
      layers_.push_back(std::make_shared<HgtLayer>(input_cols(i), options, i));
    register_layers({layers_.begin(), layers_.end()});
    const auto uniform = [&](at::IntArrayRef sizes, int index) {
      return keyed_uniform(sizes, 1.0 / std::sqrt(static_cast<double>(options.hidden)),
                           {.seed = options.seed, .layer = num_layers(), .index = index});
    };
    lin_ = register_module("lin", std::make_shared<Linear>(uniform({options.out_cols, options.hidden}, 0),
                                                           uniform({options.out_cols}, 1)));
    for (const graph::EdgeType& relation : options.types.edges)
      sources_.push_back(std::ranges::find(options.types.nodes, relation.source) -
                         options.types.nodes.begin());
  }

 private:
  /// Maps of an edge's source, [relations, in + columns, 2 * hidden]: its key, times all that scales a score, and its
  /// value.
  at::Tensor maps_of_edges(const HgtLayer& of, const at::Tensor& kqv) const {
    std::vector<at::Tensor> by_relation;
    for (const std::int64_t source : sources_) by_relation.push_back(kqv[source]);
    const at::Tensor maps = at::stack(by_relation).unflatten(2, {3, of.heads, of.head_cols});
    const auto mapped = [&](int part, const at::Tensor& matrices) {
      return at::einsum("rihd,hrde->rihe", {maps.select(2, part), matrices.unflatten(0, {of.heads, -1})});
    };
    const at::Tensor scale =
        at::stack(of.p_rel).unsqueeze(-1).div(std::sqrt(static_cast<double>(of.head_cols)));
    return at::cat({mapped(0, of.k_rel).mul(scale).flatten(2), mapped(2, of.v_rel).flatten(2)}, 2);
  }

  at::Tensor convolve(int layer, const at::Tensor& x, const Block& block, const Pass& pass) override {
    const at::ScalarType type = type_of(pass);
    const HgtLayer& of = *layers_[at(layer)];
    const std::int64_t hidden = options().hidden, columns = alignment(x, pass);
    // A source is mapped once for each of its relations.
    const auto pairs = pairs_of(ranges().relations(block), x, pass);
    const at::Tensor kqv = maps_with_bias(of.kqv, columns), in = with_ones(x.to(type), columns);
    const at::Tensor rows = grouped_product(sum_over(in, reversed(pairs->nodes), pairs),
                                            maps_of_edges(of, kqv).to(type), pairs->ends);
    const at::Tensor queries = map_by_type(in, kqv.narrow(2, hidden, hidden), block, pass);
    const at::Tensor attended = attend_by_dots(queries, rows, attention_from(pairs, layer, block, pass));
    const at::Tensor reached = is_reached(in).unsqueeze(1);
    const at::Tensor out =
        map_by_type(with_ones(at::gelu(attended), columns),
                    maps_with_bias(of.out_maps, columns).mul(reached.unsqueeze(2)), block, pass);
    const at::Tensor gated = plus_own(of, out, x.narrow(0, 0, block.num_dst), reached, block).to(type);
    return is_last(layer) ? map_rows(type, gated, lin_->weight).add(lin_->bias) : gated;
  }

  /// The gate between a layer's output and a node's own row, if that is as wide.
  at::Tensor plus_own(const HgtLayer& of, const at::Tensor& out, const at::Tensor& own,
                      const at::Tensor& reached, const Block& block) const {
    if (own.size(1) != out.size(1)) return out;
    const at::Tensor gates = at::stack(of.skip).sigmoid();
    const at::Tensor of_nodes = rows_by_type(at::cat({gates, gates.neg().add(1).mul(reached)}, 1), block);
    return out.mul(of_nodes.narrow(1, 0, 1)).add(own.to(at::kFloat).mul(of_nodes.narrow(1, 1, 1)));
  }

  const at::Tensor& bias(int) const override { return none_; }

  std::vector<std::shared_ptr<HgtLayer>> layers_;
  std::shared_ptr<Linear> lin_;
  std::vector<std::int64_t> sources_;  // type of each relation's source
  at::Tensor none_;                    // biases are those of types
};

}  // namespace

std::shared_ptr<BlockModel> make_hgt(const ModelOptions& options) {
  check_heads(options, options.num_layers);
  return std::make_shared<HgtModel>(options);
}

}  // namespace strata::nn
