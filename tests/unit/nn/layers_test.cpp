// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "gat_reference.hpp"
#include "layers/ops.hpp"
#include "strata/nn/model.hpp"
#include "strata/util/error.hpp"
#include "support/blocks.hpp"
#include "support/named_model.hpp"

namespace strata::nn {
namespace {

using test::OwnedBlock;
using test::random_block;
using test::random_rows;

/// See test::named_model().
ModelOptions options_for(const std::string& name) {
  ModelOptions options = test::named_model(name);
  options.hidden = 12;
  options.dropout = 0;
  options.seed = 3;
  return options;
}

/// One layer without activation, so that its formula stands alone.
std::shared_ptr<BlockModel> single_layer(const std::string& kind, std::int64_t in_cols,
                                         std::int64_t out_cols) {
  ModelOptions options = options_for(kind);
  options.in_cols = in_cols;
  options.out_cols = out_cols;
  options.num_layers = 1;
  return make_model(options);
}

at::Tensor f64(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

/// Rows summed by destination, in f64 and by libtorch's own differentiable operations.
at::Tensor sum_by_dst(const at::Tensor& messages, const OwnedBlock& block) {
  return at::zeros({block.num_dst, messages.size(1)}, messages.options().requires_grad(false))
      .index_add(0, block.edge_dst(), messages);
}

at::Tensor reference_sage(BlockModel& model, const at::Tensor& x, const OwnedBlock& block) {
  const auto p = model.named_parameters();
  const at::Tensor sums = sum_by_dst(x.index_select(0, block.indices.to(at::kLong)), block);
  const at::Tensor counts =
      block.indptr.slice(0, 1).sub(block.indptr.slice(0, 0, block.num_dst)).clamp_min(1);
  return sums.div(f64(counts).unsqueeze(1))
      .mm(f64(p["convs.0.lin_l.weight"]).t())
      .add(f64(p["convs.0.lin_l.bias"]))
      .add(x.slice(0, 0, block.num_dst).mm(f64(p["convs.0.lin_r.weight"]).t()));
}

at::Tensor reference_gcn(BlockModel& model, const at::Tensor& x, const OwnedBlock& block) {
  const auto p = model.named_parameters();
  const at::Tensor norm = f64(block.in_degrees).add(1).rsqrt().unsqueeze(1);
  const at::Tensor scaled = x.mul(norm), dst_norm = norm.slice(0, 0, block.num_dst);
  // Loops count for nothing: a node's own row comes once, with the weight 1.
  const at::Tensor other = f64(block.indices.to(at::kLong).ne(block.edge_dst()));
  const at::Tensor counts = at::zeros({block.num_dst}, at::kDouble).index_add(0, block.edge_dst(), other);
  const at::Tensor whole =
      f64(block.in_degrees.slice(0, 0, block.num_dst)).div(counts.clamp_min(1)).unsqueeze(1);
  const at::Tensor messages = scaled.index_select(0, block.indices.to(at::kLong)).mul(other.unsqueeze(1));
  const at::Tensor sums = sum_by_dst(messages, block).mul(whole);
  return sums.add(scaled.slice(0, 0, block.num_dst))
      .mul(dst_norm)
      .mm(f64(p["convs.0.lin.weight"]).t())
      .add(f64(p["convs.0.bias"]));
}

at::Tensor reference_sage_max(BlockModel& model, const at::Tensor& x, const OwnedBlock& block) {
  const auto p = model.named_parameters();
  const at::Tensor messages = x.index_select(0, block.indices.to(at::kLong));
  const at::Tensor largest = at::zeros({block.num_dst, x.size(1)}, x.options().requires_grad(false))
                                 .index_reduce(0, block.edge_dst(), messages, "amax", false);
  return largest.mm(f64(p["convs.0.lin_l.weight"]).t())
      .add(f64(p["convs.0.lin_l.bias"]))
      .add(x.slice(0, 0, block.num_dst).mm(f64(p["convs.0.lin_r.weight"]).t()));
}

at::Tensor reference_gin(BlockModel& model, const at::Tensor& x, const OwnedBlock& block) {
  const auto p = model.named_parameters();
  const at::Tensor counts =
      block.indptr.slice(0, 1).sub(block.indptr.slice(0, 0, block.num_dst)).clamp_min(1);
  const at::Tensor whole = f64(block.in_degrees.slice(0, 0, block.num_dst)).div(f64(counts)).unsqueeze(1);
  const at::Tensor sums = sum_by_dst(x.index_select(0, block.indices.to(at::kLong)), block).mul(whole);
  return sums.add(x.slice(0, 0, block.num_dst).mul(f64(p["convs.0.eps"]).add(1)))
      .mm(f64(p["convs.0.nn.lins.0.weight"]).t())
      .add(f64(p["convs.0.nn.lins.0.bias"]))
      .relu()
      .mm(f64(p["convs.0.nn.lins.1.weight"]).t())
      .add(f64(p["convs.0.nn.lins.1.bias"]));
}

at::Tensor reference(const std::string& kind, BlockModel& model, const at::Tensor& x,
                     const OwnedBlock& block) {
  if (kind == "sage") return reference_sage(model, x, block);
  if (kind == "sage max") return reference_sage_max(model, x, block);
  if (kind == "gin") return reference_gin(model, x, block);
  if (kind == "gcn") return reference_gcn(model, x, block);
  return test::reference_gat(model, {.heads = options_for(kind).heads.front(), .concatenates = false}, x,
                             block);
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  if (actual.numel() == 0) return;
  const double error = f64(actual).sub(f64(expected)).abs().max().item<double>();
  const double size = std::max(1.0, f64(expected).abs().max().item<double>());
  EXPECT_LE(error, 2e-5 * size) << what;
}

struct Gradients {
  at::Tensor x;
  std::vector<at::Tensor> parameters;
};

/// Gradients of sum(weights * output).
Gradients gradients_of(BlockModel& model, const at::Tensor& x, const at::Tensor& output) {
  for (at::Tensor& p : model.parameters()) p.mutable_grad() = at::Tensor();
  const at::Tensor weights = random_rows(output.size(0), output.size(1), 77).to(output.scalar_type());
  output.mul(weights).sum().backward();
  Gradients gradients{x.grad(), {}};
  for (const at::Tensor& p : model.parameters()) gradients.parameters.push_back(p.grad());
  return gradients;
}

struct LayerShape {
  Count num_dst, num_src, in_cols, out_cols;
  int max_degree;
};

class Layer : public testing::TestWithParam<std::tuple<const char*, LayerShape>> {
 protected:
  std::string kind() const { return std::get<0>(GetParam()); }
  LayerShape shape() const { return std::get<1>(GetParam()); }
  OwnedBlock block(std::uint64_t seed) const {
    return random_block({.num_dst = shape().num_dst,
                         .num_src = shape().num_src,
                         .max_degree = shape().max_degree,
                         .seed = seed});
  }
};

TEST_P(Layer, AgreesWithReferenceForwardAndBackward) {
  for (const std::uint64_t seed : {1u, 2u}) {
    const OwnedBlock owned = block(seed);
    const auto model = single_layer(kind(), shape().in_cols, shape().out_cols);
    at::Tensor x = random_rows(shape().num_src, shape().in_cols, seed).requires_grad_(true);
    at::Tensor x64 = f64(x.detach()).requires_grad_(true);

    const at::Tensor output = model->forward_layer(0, x, owned.view(), {});
    const Gradients actual = gradients_of(*model, x, output);
    const at::Tensor expected_output = reference(kind(), *model, x64, owned);
    const Gradients expected = gradients_of(*model, x64, expected_output);

    expect_close(output, expected_output, "output");
    expect_close(actual.x, expected.x, "gradient of x");
    ASSERT_EQ(actual.parameters.size(), expected.parameters.size());
    for (std::size_t i = 0; i < actual.parameters.size(); ++i) {
      expect_close(actual.parameters[i], expected.parameters[i], model->named_parameters().keys()[i]);
    }
  }
}

TEST_P(Layer, GivesTheSameWhereRowsAreProjectedBeforeTheirSum) {
  const c10::NoGradGuard no_grad;
  const OwnedBlock owned = block(3);
  const auto model = single_layer(kind(), shape().in_cols, shape().out_cols);
  if (kind() == "sage max") {
    EXPECT_EQ(model->cols(0).projected, 0) << "a maximum is not linear";
    const at::Tensor x = random_rows(shape().num_src, 3, 4);
    EXPECT_THROW(model->evaluate(0, {.rows = x, .projected = true, .block = owned.view()}), Error);
    return;
  }
  for (at::Tensor& p : model->parameters()) p.add_(0.1);  // biases start with zeros in some layers
  const at::Tensor x = random_rows(shape().num_src, shape().in_cols, 4);
  const at::Tensor projected = model->project(0, x);
  EXPECT_EQ(projected.size(0), shape().num_src);
  ASSERT_EQ(projected.size(1), model->cols(0).projected);
  const at::Tensor output = model->evaluate(0, {.rows = projected, .projected = true, .block = owned.view()});
  expect_close(output, reference(kind(), *model, f64(x), owned), "reference");
  expect_close(output, model->forward_layer(0, x, owned.view(), {}), "forward_layer");
}

TEST_P(Layer, GivesTheSameBitsAgain) {
  const OwnedBlock owned = block(5);
  const auto model = single_layer(kind(), shape().in_cols, shape().out_cols);
  const auto run = [&] {
    at::Tensor x = random_rows(shape().num_src, shape().in_cols, 6).requires_grad_(true);
    gradients_of(*model, x, model->forward_layer(0, x, owned.view(), {}));
    return x.grad();
  };
  const at::Tensor first = run();
  EXPECT_TRUE(first.equal(run()));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Layer,
    testing::Combine(testing::Values("sage", "sage max", "gcn", "gin", "gat 1", "gat 3"),
                     testing::Values(LayerShape{40, 100, 7, 5, 9}, LayerShape{300, 2000, 33, 16, 20},
                                     LayerShape{64, 64, 130, 8, 6}, LayerShape{1, 1, 1, 1, 3},
                                     LayerShape{10, 30, 4, 3, 0}, LayerShape{0, 0, 6, 4, 0},
                                     LayerShape{0, 20, 6, 4, 0})));

TEST(Aggregate, HasTheSameBitsOnAnyNumberOfThreads) {
  const OwnedBlock owned = random_block({.num_dst = 700, .num_src = 3000, .max_degree = 40, .seed = 8});
  const at::Tensor x = random_rows(3000, 45, 1);
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  const at::Tensor many = aggregate(x, owned.view(), gcn_scales(owned.view()));
  at::set_num_threads(1);
  const at::Tensor one = aggregate(x, owned.view(), gcn_scales(owned.view()));
  at::set_num_threads(before);
  EXPECT_TRUE(many.equal(one));
}

TEST(SageLayer, IsTheRootPartWhereANodeHasNoNeighbors) {
  const OwnedBlock block = test::block_of({{}, {0, 1, 1}}, 2);
  const auto model = single_layer("sage", 1, 1);
  const auto p = model->named_parameters();
  const float l = p["convs.0.lin_l.weight"].item<float>(), b = p["convs.0.lin_l.bias"].item<float>();
  const float r = p["convs.0.lin_r.weight"].item<float>();
  float rows[] = {3.0f, 6.0f};
  const at::Tensor out = model->forward_layer(0, at::from_blob(rows, {2, 1}), block.view(), {}).detach();
  EXPECT_FLOAT_EQ(out[0].item<float>(), r * 3 + b);
  EXPECT_FLOAT_EQ(out[1].item<float>(),
                  l * 5 + r * 6 + b);  // the mean of 3, 6, 6: parallel edges count twice
}

TEST(SageMaxLayer, TakesTheFirstOfEqualNeighborsOnce) {
  const OwnedBlock block = test::block_of({{1, 2, 1, 0}, {2, 2}}, 3);
  const auto model = single_layer("sage max", 1, 1);
  const float l = model->named_parameters()["convs.0.lin_l.weight"].item<float>();
  const float r = model->named_parameters()["convs.0.lin_r.weight"].item<float>();
  float rows[] = {3.0f, 6.0f, 6.0f};
  at::Tensor x = at::from_blob(rows, {3, 1}).clone().requires_grad_(true);
  model->forward_layer(0, x, block.view(), {}).sum().backward();
  EXPECT_FLOAT_EQ(x.grad()[0].item<float>(), r);
  EXPECT_FLOAT_EQ(x.grad()[1].item<float>(), r + l) << "it is listed twice, and counts once";
  EXPECT_FLOAT_EQ(x.grad()[2].item<float>(), l);
}

TEST(SageMaxLayer, LetsNotANumberThrough) {
  const OwnedBlock block = test::block_of({{0, 1, 2}}, 3);
  float rows[] = {3.0f, std::nanf(""), 6.0f};
  const auto model = single_layer("sage max", 1, 1);
  EXPECT_TRUE(
      std::isnan(model->forward_layer(0, at::from_blob(rows, {3, 1}), block.view(), {}).item<float>()));
}

TEST(GcnLayer, ScalesASampledNeighborhoodToTheWhole) {
  OwnedBlock block = test::block_of({{1}}, 2);  // one of three in-neighbors was sampled
  block.in_degrees[0] = 3;
  const auto model = single_layer("gcn", 1, 1);
  const float w = model->named_parameters()["convs.0.lin.weight"].item<float>();
  float rows[] = {8.0f, 5.0f};
  const at::Tensor out = model->forward_layer(0, at::from_blob(rows, {2, 1}), block.view(), {}).detach();
  EXPECT_FLOAT_EQ(out.item<float>(), w * (3.0f * 5.0f / 2.0f + 8.0f / 4.0f));  // d = 4 and 1
}

TEST(GcnLayer, SumsNoLoopsThatItWouldHaveToTakeAwayAgain) {
  std::vector<std::int32_t> of_first(100000, 0);  // node 0 wrote to itself
  of_first.push_back(1);
  of_first.push_back(2);
  OwnedBlock block = test::block_of({of_first, {0}}, 3);
  block.in_degrees[0] = 2;
  block.in_degrees[1] = 1;
  const auto model = single_layer("gcn", 1, 1);
  const double w = model->named_parameters()["convs.0.lin.weight"].item<double>();
  const double third = 1 / std::sqrt(3.0), half = 1 / std::sqrt(2.0);
  const double expected = w * third * (8 * third + 5 * half - 4);
  float rows[] = {8.0f, 5.0f, -4.0f};
  at::Tensor x = at::from_blob(rows, {3, 1}).clone().requires_grad_(true);
  const at::Tensor out = model->forward_layer(0, x, block.view(), {});
  EXPECT_NEAR(out.detach()[0].item<double>(), expected, 1e-5);
  out.select(0, 0).sum().backward();
  EXPECT_NEAR(x.grad()[0].item<double>(), w / 3, 1e-5);
  EXPECT_NEAR(x.grad()[1].item<double>(), w * third * half, 1e-5);

  const std::vector<float> weights(of_first.size() + 1, 0.1f);
  sampling::Block weighted = block.view();
  weighted.edge_weights = weights.data();
  const c10::NoGradGuard no_grad;
  EXPECT_NEAR(model->forward_layer(0, x, weighted, {})[0].item<double>(), expected, 1e-5);
}

TEST(Layers, MapFirstOrSumFirstAlike) {
  for (const char* kind : {"sage", "gcn", "gin"}) {
    const OwnedBlock owned = random_block({.num_dst = 200, .num_src = 210, .max_degree = 30, .seed = 4});
    OwnedBlock without_transpose = owned;
    without_transpose.transposed_indptr = without_transpose.transposed_indices = at::Tensor();
    const auto model = single_layer(kind, 300, 4);
    const at::Tensor x = random_rows(210, 300, 4);
    const at::Tensor mapped_first = model->forward_layer(0, x, owned.view(), {}).detach();
    const at::Tensor summed_first = model->forward_layer(0, x, without_transpose.view(), {}).detach();
    EXPECT_FALSE(mapped_first.equal(summed_first)) << "both took the same way";
    expect_close(mapped_first, summed_first, kind);
  }
}

TEST(Layers, RefuseWhatTheyCannotDo) {
  OwnedBlock owned = random_block({.num_dst = 5, .num_src = 9, .transpose = false, .seed = 2});
  const auto sage = single_layer("sage", 4, 2), gcn = single_layer("gcn", 4, 2),
             gin = single_layer("gin", 4, 2);
  EXPECT_THROW(sage->forward_layer(0, random_rows(8, 4, 1), owned.view(), {}), Error) << "rows";
  EXPECT_THROW(sage->forward_layer(0, f64(random_rows(9, 4, 1)), owned.view(), {}), Error) << "type";
  sampling::Block no_degrees = owned.view();
  no_degrees.src_in_degrees = nullptr;
  EXPECT_THROW(gcn->forward_layer(0, random_rows(9, 4, 1), no_degrees, {}), Error);
  EXPECT_THROW(gin->forward_layer(0, random_rows(9, 4, 1), no_degrees, {}), Error);
  EXPECT_NO_THROW(sage->forward_layer(0, random_rows(9, 4, 1), no_degrees, {}));
  at::Tensor x = random_rows(9, 4, 1).requires_grad_(true);
  for (const char* kind : {"sage", "sage max", "gin", "gat 2"}) {
    const at::Tensor output = single_layer(kind, 4, 2)->forward_layer(0, x, owned.view(), {});
    EXPECT_THROW(output.sum().backward(), Error) << kind << ": the gradient of x needs the transpose";
  }
}

}  // namespace
}  // namespace strata::nn
