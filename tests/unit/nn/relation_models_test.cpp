// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention.hpp"
#include "layers/relation_rows.hpp"
#include "strata/nn/grouped_product.hpp"
#include "strata/nn/model.hpp"
#include "strata/util/error.hpp"
#include "support/typed_blocks.hpp"

namespace strata::nn {
namespace {

using test::TypedBlock;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

ModelOptions relational(ModelKind kind) {
  return {.kind = kind,
          .in_cols = 6,
          .hidden = 8,
          .out_cols = 3,
          .heads = {2},
          .dropout = 0,
          .seed = 3,
          .types = test::citation_types()};
}

constexpr Pass kPass{.key = {.seed = 5, .epoch = 1, .step = 2}, .training = true};

/// The layers relation by relation, with libtorch's operations on all edges.
class Reference {
 public:
  Reference(const BlockModel& model, const ModelOptions& options, const TypedBlock& block)
      : options_(options),
        parameters_(model.named_parameters()),
        block_(block),
        src_(block.block.indices.to(at::kLong)),
        dst_(block.block.edge_dst()) {}

  at::Tensor layer(int layer, const at::Tensor& x) {
    prefix_ = "convs." + std::to_string(layer) + ".";
    rule_ =
        make_dropout(options_.attention_dropout, kPass, options_.num_layers - 1 - layer, block_.block.view());
    last_ = layer + 1 == options_.num_layers;
    const at::Tensor own = x.narrow(0, 0, block_.block.num_dst);
    if (options_.kind == ModelKind::hgt) return transformed(x, own);
    at::Tensor out = at::zeros({own.size(0), last_ ? options_.out_cols : options_.hidden});
    for (std::size_t r = 0; r < options_.types.edges.size(); ++r) out = out + of_relation(r, x, own);
    if (options_.kind == ModelKind::rgcn)
      out = out + own.mm(parameters_[prefix_ + "root"]) + parameters_[prefix_ + "bias"];
    return last_ ? out : out.relu();
  }

 private:
  /// Rows mapped by the matrices of their types, of which src nodes have those of their ids.
  at::Tensor by_type(const std::string& name, const at::Tensor& rows) const {
    const auto& offsets = options_.types.node_offsets;
    at::Tensor out;
    for (std::size_t t = 0; t < options_.types.nodes.size(); ++t) {
      std::string type = options_.types.nodes[t];
      std::ranges::replace(type, '.', '#');
      const at::Tensor ids = block_.block.original_ids.narrow(0, 0, rows.size(0));
      const at::Tensor is =
          ids.ge(offsets[t]).logical_and(ids.lt(offsets[t + 1])).to(at::kFloat).unsqueeze(1);
      const std::string linear = prefix_ + name + ".lins." + type;
      const at::Tensor of_type =
          is * (rows.mm(parameters_[linear + ".weight"].t()) + parameters_[linear + ".bias"]);
      out = out.defined() ? out + of_type : of_type;
    }
    return out;
  }

  /// [edges, 2, 1] what dropout multiplies the weights of edges with.
  at::Tensor kept(const at::Tensor& src, const at::Tensor& dst, const at::Tensor& relations) const {
    const at::Tensor scales = at::ones({src.size(0), 2, 1});
    for (std::int64_t e = 0; rule_.active() && e < src.size(0); ++e) {
      const Philox4 key = edge_key(rule_, dst[e].item<std::int64_t>());
      for (std::uint32_t head = 0; head < 2; ++head)
        scales[e][head] = keeps_edge(rule_, key, src[e].item<std::int64_t>(), head,
                                     static_cast<std::uint32_t>(relations[e].item<std::int64_t>()))
                              ? rule_.scale()
                              : 0.0f;
    }
    return scales;
  }

  at::Tensor transformed(const at::Tensor& x, const at::Tensor& own) const {
    const std::int64_t hidden = options_.hidden, relations = std::ssize(options_.types.edges);
    const at::Tensor kqv = by_type("kqv_lin", x).unflatten(1, {3, 2, hidden / 2});
    const at::Tensor matrix = block_.relations.unsqueeze(1) + at::arange(2).unsqueeze(0) * relations;
    const auto of_edges = [&](int part, const std::string& name) {
      const at::Tensor weights = parameters_[prefix_ + name + ".weight"].index_select(0, matrix.flatten());
      const at::Tensor rows = kqv.select(1, part).index_select(0, src_).flatten(0, 1).unsqueeze(1);
      return rows.matmul(weights).view({src_.size(0), 2, hidden / 2});
    };
    std::vector<at::Tensor> priors;
    for (const graph::EdgeType& r : options_.types.edges) {
      std::string name = r.source + "__" + r.name + "__" + r.destination;
      std::ranges::replace(name, '.', '#');
      priors.push_back(parameters_[prefix_ + "p_rel." + name]);
    }
    const at::Tensor scores = (kqv.select(1, 1).index_select(0, dst_) * of_edges(0, "k_rel")).sum(-1) *
                              at::cat(priors).index_select(0, block_.relations) /
                              std::sqrt(static_cast<double>(hidden / 2));
    const at::Tensor shares = scores.exp();
    const at::Tensor sums = at::zeros({own.size(0), 2}).index_add(0, dst_, shares);
    const at::Tensor weighted = (shares / sums.index_select(0, dst_)).unsqueeze(-1) * of_edges(2, "v_rel") *
                                kept(src_, dst_, block_.relations);
    const at::Tensor attended =
        at::zeros({own.size(0), 2, hidden / 2}).index_add(0, dst_, weighted).flatten(1);
    at::Tensor out = by_type("out_lin", at::gelu(attended));
    if (own.size(1) == hidden) {
      std::vector<at::Tensor> skips;
      for (std::string type : options_.types.nodes) {
        std::ranges::replace(type, '.', '#');
        skips.push_back(parameters_[prefix_ + "skip." + type]);
      }
      const at::Tensor gate = at::cat(skips).sigmoid().index_select(0, block_.types).unsqueeze(1);
      out = gate * out + (1 - gate) * own;
    }
    out = out * block_.types.lt(2).to(at::kFloat).unsqueeze(1);  // no relation ends at the last type
    return last_ ? out.mm(parameters_["lin.weight"].t()) + parameters_["lin.bias"] : out.relu();
  }

  at::Tensor of_relation(std::size_t relation, const at::Tensor& x, const at::Tensor& own) const {
    const at::Tensor chosen = block_.relations.eq(static_cast<std::int64_t>(relation)).nonzero().view(-1);
    const at::Tensor src = src_.index_select(0, chosen), dst = dst_.index_select(0, chosen);
    const graph::EdgeType& type = options_.types.edges[relation];
    std::string name = "<" + type.source + "___" + type.name + "___" + type.destination + ">";
    std::ranges::replace(name, '.', '#');
    const std::string conv = prefix_ + "convs." + name + ".";
    const auto into =
        std::ranges::find(options_.types.nodes, type.destination) - options_.types.nodes.begin();
    const at::Tensor is_into = block_.types.eq(into).to(at::kFloat).unsqueeze(1);
    const at::Tensor scales = kept(src, dst, block_.relations.index_select(0, chosen));
    if (options_.kind == ModelKind::rgat) return attended(conv, x, own, src, dst, scales) * is_into;
    const at::Tensor counts =
        at::zeros({own.size(0)}).index_add(0, dst, at::ones({dst.size(0)})).clamp_min(1).unsqueeze(1);
    const at::Tensor mean =
        at::zeros({own.size(0), x.size(1)}).index_add(0, dst, x.index_select(0, src)) / counts;
    if (options_.kind == ModelKind::rgcn)
      return mean.mm(parameters_[prefix_ + "weight"][static_cast<std::int64_t>(relation)]);
    return (mean.mm(parameters_[conv + "lin_l.weight"].t()) + parameters_[conv + "lin_l.bias"] +
            own.mm(parameters_[conv + "lin_r.weight"].t())) *
           is_into;
  }

  at::Tensor attended(const std::string& conv, const at::Tensor& x, const at::Tensor& own,
                      const at::Tensor& src, const at::Tensor& dst, const at::Tensor& scales) const {
    const at::Tensor lin = parameters_[conv + "lin.weight"].t();
    const at::Tensor of_src = x.mm(lin).unflatten(1, {2, -1}), of_dst = own.mm(lin).unflatten(1, {2, -1});
    const at::Tensor scores =
        at::leaky_relu((of_src * parameters_[conv + "att_src"]).sum(-1).index_select(0, src) +
                           (of_dst * parameters_[conv + "att_dst"]).sum(-1).index_select(0, dst),
                       0.2)
            .exp();
    const at::Tensor sums = at::zeros({own.size(0), 2}).index_add(0, dst, scores);
    const at::Tensor shares = (scores / sums.index_select(0, dst)).unsqueeze(-1) * scales;
    const at::Tensor out =
        at::zeros({own.size(0), 2, of_src.size(2)}).index_add(0, dst, shares * of_src.index_select(0, src));
    return (last_ ? out.mean(1) : out.flatten(1)) + parameters_[conv + "bias"];
  }

  const ModelOptions& options_;
  torch::OrderedDict<std::string, at::Tensor> parameters_;
  const TypedBlock& block_;
  at::Tensor src_, dst_;
  std::string prefix_;
  DropoutRule rule_;
  bool last_ = false;
};

std::vector<at::Tensor> take_gradients(BlockModel& model, at::Tensor x) {
  std::vector<at::Tensor> gradients{x.grad()};
  x.mutable_grad() = at::Tensor();
  for (at::Tensor& parameter : model.parameters()) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad() = at::Tensor();
  }
  return gradients;
}

class RelationModels : public testing::TestWithParam<ModelKind> {};

void expect_the_reference(const ModelOptions& options) {
  const TypedBlock block = test::random_typed_block(options.types, 40, 55, 5);
  const auto model = make_model(options);
  for (const auto& item : model->named_parameters()) {
    const c10::NoGradGuard no_grad;
    if (item.value().dim() == 1) item.value().copy_(test::random_rows(1, item.value().numel(), 9)[0]);
  }
  Reference reference(*model, options, block);
  for (int layer = 0; layer < 2; ++layer) {
    const at::Tensor x = test::random_rows(55, layer == 0 ? 6 : 8, 1).requires_grad_();
    const at::Tensor grad = test::random_rows(40, layer == 0 ? 8 : 3, 2);
    const at::Tensor wanted = reference.layer(layer, x);
    wanted.backward(grad);
    const auto wanted_gradients = take_gradients(*model, x);
    const at::Tensor got = model->forward_layer(layer, x, block.view(), kPass);
    got.backward(grad);
    const auto gradients = take_gradients(*model, x);
    EXPECT_LT((got - wanted).abs().max().item<float>(), 1e-5f) << "layer " << layer;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      ASSERT_EQ(gradients[i].defined(), wanted_gradients[i].defined()) << i;
      if (!gradients[i].defined()) continue;  // of the other layer
      EXPECT_LT((gradients[i] - wanted_gradients[i]).abs().max().item<float>(), 2e-5f)
          << "layer " << layer << ", gradient " << i;
    }
  }
}

TEST_P(RelationModels, EqualAReferenceThatLoopsOverRelations) {
  expect_the_reference(relational(GetParam()));
}

TEST(RelationModel, DropsEdgesByTheirEndsAndRelation) {
  for (const ModelKind kind : {ModelKind::rgat, ModelKind::hgt}) {
    ModelOptions options = relational(kind);
    options.attention_dropout = 0.4;
    expect_the_reference(options);
  }
}

/// Errors are those of rounded rows, and of a few values whose sign before the ReLU they change.
TEST_P(RelationModels, TrainInBf16) {
  ModelOptions options = relational(GetParam());
  options.attention_dropout = 0.3;
  const TypedBlock block = test::random_typed_block(options.types, 40, 55, 5);
  std::vector<std::vector<at::Tensor>> results;
  for (const bool bf16 : {false, true}) {
    options.bf16 = bf16;
    const auto model = make_model(options);
    const at::Tensor x = test::random_rows(55, 6, 1).requires_grad_(),
                     hidden = model->forward_layer(0, x, block.view(), kPass);
    EXPECT_EQ(hidden.scalar_type(), bf16 ? at::kBFloat16 : at::kFloat);
    hidden.backward(test::random_rows(40, 8, 2).to(hidden.scalar_type()));
    results.push_back(take_gradients(*model, x));
    results.back().push_back(hidden.detach().to(at::kFloat));
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    if (!results[0][i].defined()) continue;
    const at::Tensor wanted = results[0][i], error = results[1][i] - wanted;
    EXPECT_LE(error.norm().item<float>(), 0.06f * wanted.norm().item<float>() + 0.01f) << i;
  }
}

TEST_P(RelationModels, GiveTheSameBitsAgainAndTakeNoEdges) {
  const ModelOptions options = relational(GetParam());
  const auto model = make_model(options);
  for (const Count num_dst : {0, 30}) {
    const TypedBlock block = test::random_typed_block(options.types, num_dst, 30, 6);
    const at::Tensor x = test::random_rows(30, 6, 1);
    const auto run = [&] {
      const at::Tensor out = model->forward_layer(0, x, block.view(), {.key = {}, .training = true});
      out.sum().backward();
      std::vector<at::Tensor> all{out.detach()};
      for (at::Tensor& parameter : model->parameters()) {
        if (parameter.grad().defined()) all.push_back(parameter.grad());
        parameter.mutable_grad() = at::Tensor();
      }
      return all;
    };
    const auto first = run(), second = run();
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(second[i])) << i;
  }
}

TEST_P(RelationModels, TakeGraphsOfOneRelation) {
  ModelOptions options = relational(GetParam());
  options.types = {};
  const auto model = make_model(options);
  const test::OwnedBlock block = test::random_block({.num_dst = 10, .num_src = 20, .transpose = false});
  EXPECT_FALSE(model->traits().needs_types);
  const at::Tensor out = model->forward_layer(0, test::random_rows(20, 6, 1), block.view(), {});
  EXPECT_EQ(out.sizes().vec(), (std::vector<std::int64_t>{10, 8}));
}

INSTANTIATE_TEST_SUITE_P(All, RelationModels,
                         testing::Values(ModelKind::rgcn, ModelKind::rsage, ModelKind::rgat, ModelKind::hgt),
                         [](const auto& info) { return std::string(enum_name(info.param)); });

/// Sums that pass through all arrays of rows and pairs, and their gradient. `alignment` is that of libtorch's way;
/// 0 takes the plain one.
std::vector<at::Tensor> results_of(const LabelledEdges& edges, Count num_dst, Count alignment) {
  const auto make = [&](const LabelledEdges& of) {
    return alignment == 0 ? make_relation_rows(of, {.transpose = true})
                          : make_relation_rows_by_torch(of, {.transpose = true, .alignment = alignment});
  };
  const auto back = [&](const LabelledEdges& of) {
    return alignment == 0 ? reversed(of) : reversed_by_torch(of);
  };
  const auto rows = make(edges), pairs = make(back(edges_of(*rows, edges.num_labels))),
             of_nodes = make(back(edges));
  for (std::int64_t label = 0; alignment > 0 && label < rows->ends.size(0); ++label) {
    EXPECT_EQ(rows->ends[label].item<int>() % alignment, 0);
    EXPECT_EQ(pairs->ends[label].item<int>() % alignment, 0);
  }
  const at::Tensor x = test::random_rows(rows->neighbors.num_src, 4, 1).requires_grad_();
  const at::Tensor weights = test::random_rows(rows->ends.size(0) * 4, 5, 2).view({-1, 4, 5});
  const auto mapped_pairs = [&](const std::shared_ptr<const RelationRows>& of) {
    const at::Tensor places = at::cat({values_of_rows(x, *of), labels_of(*of).unsqueeze(1)}, 1);
    const at::Tensor of_pairs = sum_over(x, reversed(of->nodes), of);
    return sum_over(grouped_product(of_pairs, weights, of->ends) + places, reversed(of->neighbors), of);
  };
  const at::Tensor means = mean_of_neighbors(at::kFloat, x, rows);
  const at::Tensor own = sum_over(x.narrow(0, 0, rows->nodes.num_dst), reversed(rows->nodes), rows);
  const at::Tensor mapped = grouped_product(means + 2 * own, weights, rows->ends) + mapped_pairs(pairs);
  const at::Tensor out =
      (sum_over(mapped, rows->nodes, rows) + 3 * mapped_pairs(of_nodes)).narrow(0, 0, num_dst);
  out.square().sum().backward();
  return {out.detach(), x.grad()};
}

void expect_close(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), wanted[i].sizes());
    EXPECT_TRUE(got[i].allclose(wanted[i], 1e-5, 1e-4)) << i;
  }
}

TEST(RelationRows, AreTheSameByAllMeans) {
  const TypeRanges ranges(test::citation_types());
  for (const Count num_dst : {0, 1, 60}) {
    const TypedBlock block = test::random_typed_block(test::citation_types(), num_dst, 60, 8);
    const LabelledEdges edges = ranges.relations(block.view());
    const auto wanted = results_of(edges, num_dst, 0);
    for (const Count alignment : {1, 8}) expect_close(results_of(edges, num_dst, alignment), wanted);
  }
}

TEST(RelationRows, IgnoreWhatPadsABatch) {
  const TypeRanges ranges(test::citation_types());
  const TypedBlock block = test::random_typed_block(test::citation_types(), 20, 60, 9);
  const auto wanted = results_of(ranges.relations(block.view()), 20, 0);
  sampling::Block padded = block.view();
  const Count more = 13;
  const at::Tensor indptr =
      at::cat({block.block.indptr, at::full({5}, padded.num_edges, block.block.indptr.options())});
  const at::Tensor indices =
      at::cat({block.block.indices, at::full({more}, -1, block.block.indices.options())});
  const at::Tensor edge_ids = at::cat({block.edge_ids, at::full({more}, 77, block.edge_ids.options())});
  padded.num_dst += 5;
  padded.num_edges += more;
  padded.indptr = indptr.const_data_ptr<std::int64_t>();
  padded.indices = indices.const_data_ptr<std::int32_t>();
  padded.edge_ids = edge_ids.const_data_ptr<std::int64_t>();
  for (const Count alignment : {1, 8})
    expect_close(results_of(ranges.relations(padded), 20, alignment), wanted);
}

TEST(RelationRows, WeighEdgesByAllMeans) {
  const TypeRanges ranges(test::citation_types());
  const TypedBlock block = test::random_typed_block(test::citation_types(), 20, 60, 9);
  sampling::Block weighted = block.view();
  const at::Tensor weights = test::random_rows(weighted.num_edges, 1, 3).abs();
  weighted.edge_weights = weights.const_data_ptr<float>();
  const at::Tensor x = test::random_rows(60, 4, 1);
  const auto means = [&](const auto& rows) {
    return sum_over(mean_of_neighbors(at::kFloat, x, rows), rows->nodes, rows);
  };
  const at::Tensor got = means(make_relation_rows(ranges.relations(weighted), {}));
  expect_close({means(make_relation_rows_by_torch(ranges.relations(weighted), {.alignment = 8}))}, {got});
  EXPECT_FALSE(got.allclose(means(make_relation_rows(ranges.relations(block.view()), {}))));
}

TEST(RelationRows, NeedEdgeIds) {
  const TypedBlock block = test::random_typed_block(test::citation_types(), 20, 60, 9);
  try {
    TypeRanges(test::citation_types()).relations(block.block.view());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("ids of its block's edges"));
  }
}

TEST(RelationModel, HasPyGsNames) {
  ModelOptions options = relational(ModelKind::rgcn);
  options.num_bases = 2;
  options.num_layers = 1;
  EXPECT_THAT(make_model(options)->named_parameters().keys(),
              UnorderedElementsAre("convs.0.weight", "convs.0.comp", "convs.0.root", "convs.0.bias"));
  options.kind = ModelKind::rsage;
  options.types.nodes = {"a.b"};
  options.types.edges = {{"a.b", "to", "a.b"}};
  options.types.node_offsets = options.types.edge_offsets = {};
  EXPECT_THAT(make_model(options)->named_parameters().keys(),
              UnorderedElementsAre("convs.0.convs.<a#b___to___a#b>.lin_l.weight",
                                   "convs.0.convs.<a#b___to___a#b>.lin_l.bias",
                                   "convs.0.convs.<a#b___to___a#b>.lin_r.weight"));
}

TEST(RelationModel, RefusesWhatItCannotBe) {
  const auto message = [](ModelOptions options) -> std::string {
    try {
      make_model(options);
    } catch (const InputError& error) {
      return std::string(error.what()) + error.remedy();
    }
    return "accepted";
  };
  ModelOptions options = relational(ModelKind::sage);
  EXPECT_THAT(message(options), HasSubstr("rgcn, rsage, rgat or hgt"));
  options.kind = ModelKind::rgcn;
  options.num_bases = 6;
  EXPECT_THAT(message(options), HasSubstr("6 bases for 5 relations"));
}

}  // namespace
}  // namespace strata::nn
