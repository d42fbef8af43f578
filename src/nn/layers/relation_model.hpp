// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "layers/edge_attention.hpp"
#include "layers/init.hpp"
#include "layers/layers.hpp"
#include "layers/relation_rows.hpp"

/// What the models over several relations share.
namespace strata::nn {

/// A model of layers over the relations of a graph.
class RelationModel : public StackedModel {
 public:
  RelationModel(const ModelOptions& options, std::vector<LayerCols> layers);

 protected:
  /// The rows of a block, with the transpose that the gradient of x needs.
  std::shared_ptr<const RelationRows> rows_of(const at::Tensor& x, const sampling::Block& block,
                                              const Pass& pass) const;
  /// The pairs of a relation and a src node of these edges, as rows. Their `nodes` are src nodes, their `neighbors`
  /// what the edges go to; both have a transpose.
  std::shared_ptr<const RelationRows> pairs_of(const LabelledEdges& edges, const at::Tensor& x,
                                               const Pass& pass) const;
  /// Attention from pairs to what their edges go to: dst nodes, or `dst_rows`.
  AttentionOver attention_from(const std::shared_ptr<const RelationRows>& pairs, int layer,
                               const sampling::Block& block, const Pass& pass,
                               const RelationRows* dst_rows = nullptr) const;
  /// Of the first rows of relations and of types, and of the columns that a product takes.
  Count alignment(const at::Tensor& x, const Pass& pass) const;
  /// x [num_dst, ..] -> [num_dst, cols]: x weights[t] for the nodes of type t, in the type of the pass.
  at::Tensor map_by_type(const at::Tensor& x, const at::Tensor& weights, const sampling::Block& block,
                         const Pass& pass) const;
  /// Sums over the relations into each type: [relations, ..] -> [types, ..].
  at::Tensor sum_into_types(const at::Tensor& of_relations) const;
  /// The row of each dst node's type: [types, cols] -> [num_dst, cols].
  at::Tensor rows_by_type(const at::Tensor& of_types, const sampling::Block& block) const;
  /// Adds the row of each node's type, [types, cols].
  at::Tensor add_by_type(const at::Tensor& z, const at::Tensor& of_types, const sampling::Block& block) const;
  /// [types]: 1 for types that a relation ends at; on the device of `like`.
  at::Tensor is_reached(const at::Tensor& like) const;
  /// Whether rows need a gradient, and with it the transposes of what sums them.
  static bool needs_gradient(const at::Tensor& x);
  const TypeRanges& ranges() const { return ranges_; }

 private:
  const at::Tensor& into_types(const at::Tensor& like) const;

  TypeRanges ranges_;
  mutable at::Tensor
      into_types_;  // [types, relations] 1 where it ends at the type; on the device that asked last
};

/// Modules by relation under the names of PyG's HeteroConv: `convs.<paper___cites___paper>`.
struct HeteroConv : torch::nn::Module {
  HeteroConv(const std::vector<graph::EdgeType>& relations,
             const std::vector<std::shared_ptr<torch::nn::Module>>& convs);
};

/// PyG's name of the module of a relation, without dots, which a name of a module cannot have.
std::string module_name(const graph::EdgeType& relation);

/// The matrices [out, in] of the relations as [relations, in, out].
at::Tensor stack_maps(const std::vector<at::Tensor>& weights);

/// The number of a parameter of a relation among those of the layer, of which each relation has `each`.
constexpr int parameter_index(std::size_t relation, int each, int index) {
  return static_cast<int>(relation) * each + index;
}

}  // namespace strata::nn
