// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/model.hpp"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <cmath>

#include "strata/util/error.hpp"
#include "support/blocks.hpp"
#include "support/named_model.hpp"

namespace strata::nn {
namespace {

using test::OwnedBlock;
using test::random_block;
using test::random_rows;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

ModelOptions small(const std::string& name) {
  ModelOptions options = test::named_model(name);
  options.in_cols = 12;
  options.hidden = 20;
  options.out_cols = 4;
  options.seed = 1;
  return options;
}

TEST(Model, HasThePyGNamesAndShapes) {
  const auto sage = make_model(small("sage"));
  EXPECT_THAT(sage->named_parameters().keys(),
              UnorderedElementsAre("convs.0.lin_l.weight", "convs.0.lin_l.bias", "convs.0.lin_r.weight",
                                   "convs.1.lin_l.weight", "convs.1.lin_l.bias", "convs.1.lin_r.weight"));
  EXPECT_THAT(sage->named_parameters()["convs.0.lin_l.weight"].sizes().vec(), ElementsAre(20, 12));
  EXPECT_THAT(sage->named_parameters()["convs.1.lin_r.weight"].sizes().vec(), ElementsAre(4, 20));
  const auto gcn = make_model(small("gcn"));
  EXPECT_THAT(gcn->named_parameters().keys(), UnorderedElementsAre("convs.0.lin.weight", "convs.0.bias",
                                                                   "convs.1.lin.weight", "convs.1.bias"));
  const auto gat = make_model(small("gat"));
  EXPECT_THAT(
      gat->named_parameters().keys(),
      UnorderedElementsAre("convs.0.att_src", "convs.0.att_dst", "convs.0.bias", "convs.0.lin.weight",
                           "convs.1.att_src", "convs.1.att_dst", "convs.1.bias", "convs.1.lin.weight"));
  EXPECT_THAT(gat->named_parameters()["convs.0.att_src"].sizes().vec(), ElementsAre(1, 4, 5));
  EXPECT_THAT(gat->named_parameters()["convs.1.lin.weight"].sizes().vec(), ElementsAre(16, 20));
  EXPECT_THAT(gat->named_parameters()["convs.1.bias"].sizes().vec(), ElementsAre(4));
  const auto gin = make_model(small("gin"));
  EXPECT_EQ(gin->named_parameters().size(), 10u);
  EXPECT_THAT(gin->named_parameters()["convs.0.eps"].sizes().vec(), ElementsAre(1));
  EXPECT_THAT(gin->named_parameters()["convs.1.nn.lins.0.weight"].sizes().vec(), ElementsAre(4, 20));
  EXPECT_THAT(gin->named_parameters()["convs.1.nn.lins.1.weight"].sizes().vec(), ElementsAre(4, 4));
  EXPECT_TRUE(gat->traits().needs_input_transpose);
  EXPECT_TRUE(gcn->traits().needs_in_degrees);
  EXPECT_FALSE(sage->traits().needs_in_degrees);
  EXPECT_EQ(sage->output_cols(0), 20);
  EXPECT_EQ(sage->output_cols(1), 4);
}

TEST(Model, StartsUniformWithinTheBounds) {
  ModelOptions options = small("sage");
  options.in_cols = 256;
  options.hidden = 300;
  const at::Tensor weight = make_model(options)->named_parameters()["convs.0.lin_l.weight"].detach();
  const double bound = 1.0 / 16.0;
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_GE(weight.abs().max().item<double>(), 0.999 * bound);
  EXPECT_NEAR(weight.mean().item<double>(), 0.0, 5 * bound / std::sqrt(3.0 * 76800));
  EXPECT_NEAR(weight.var().item<double>(), bound * bound / 3, 0.02 * bound * bound);
  options.kind = ModelKind::gcn;
  const auto gcn = make_model(options)->named_parameters();
  EXPECT_NEAR(gcn["convs.0.lin.weight"].abs().max().item<double>(), std::sqrt(6.0 / 556), 1e-3);
  EXPECT_TRUE(gcn["convs.0.bias"].eq(0).all().item<bool>());
}

TEST(Model, StartsFromItsSeedAlone) {
  ModelOptions options = small("sage");
  const auto first = make_model(options), again = make_model(options);
  options.seed = 2;
  const auto other = make_model(options);
  for (const auto& item : first->named_parameters()) {
    EXPECT_TRUE(item.value().equal(again->named_parameters()[item.key()])) << item.key();
    EXPECT_FALSE(item.value().equal(other->named_parameters()[item.key()])) << item.key();
  }
  const auto p = first->named_parameters();
  EXPECT_FALSE(p["convs.0.lin_l.weight"].equal(p["convs.0.lin_r.weight"]));
}

struct TwoHops {
  OwnedBlock outer, inner;
  sampling::MiniBatch batch() const {
    return {.blocks = {outer.view(), inner.view()}, .num_seeds = inner.num_dst};
  }
};

TwoHops two_hops(Count seeds, Count frontier, Count inputs, bool with_input_transpose = false) {
  return {
      random_block({.num_dst = frontier, .num_src = inputs, .transpose = with_input_transpose, .seed = 1}),
      random_block({.num_dst = seeds, .num_src = frontier, .seed = 2})};
}

TEST(Model, TrainingLowersTheLossAndRepeatsBitForBit) {
  for (const char* kind : {"sage", "gcn", "gin", "gat"}) {
    const TwoHops hops = two_hops(30, 80, 200, make_model(small(kind))->traits().needs_input_transpose);
    const at::Tensor x = random_rows(200, 12, 1), target = random_rows(30, 4, 2);
    const bool slow = std::string(kind) == "gat";  // a softmax over few neighbors moves little
    const std::uint32_t steps = slow ? 100 : 40;
    const auto train = [&] {
      const auto model = make_model(small(kind));
      std::vector<float> losses;
      for (std::uint32_t step = 0; step < steps; ++step) {
        const at::Tensor out =
            model->forward(x, hops.batch(), {.key = {.seed = 1, .epoch = 0, .step = step}, .training = true});
        const at::Tensor loss = out.sub(target).square().mean();
        losses.push_back(loss.item<float>());
        loss.backward();
        const c10::NoGradGuard no_grad;
        for (at::Tensor& p : model->parameters()) {
          p.sub_(p.grad(), slow ? 1.5 : 0.2);
          p.mutable_grad() = at::Tensor();
        }
      }
      return losses;
    };
    const auto losses = train();
    EXPECT_LT(losses.back(), 0.8f * losses.front()) << kind;
    EXPECT_EQ(losses, train()) << kind;
  }
}

TEST(Model, WorksOnNoSeedsAtAll) {
  for (const char* kind : {"sage", "gcn", "gin", "gat"}) {
    const TwoHops hops = two_hops(0, 0, 0, true);
    const auto model = make_model(small(kind));
    const at::Tensor out = model->forward(random_rows(0, 12, 1), hops.batch(), {.key = {}, .training = true});
    EXPECT_THAT(out.sizes().vec(), ElementsAre(0, 4));
    out.sum().backward();
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(item.value().grad().eq(0).all().item<bool>()) << kind << ' ' << item.key();
    }
  }
}

TEST(Model, InputDropoutActsOnTheFeatures) {
  ModelOptions options = small("sage");
  options.dropout = 0;
  const TwoHops hops = two_hops(10, 30, 60);
  const at::Tensor x = random_rows(60, 12, 1), before = x.clone();
  const Pass training{.key = {}, .training = true};
  const at::Tensor plain = make_model(options)->forward(x, hops.batch(), training);
  options.input_dropout = 0.4;
  const auto model = make_model(options);
  EXPECT_FALSE(model->forward(x, hops.batch(), training).equal(plain));
  EXPECT_TRUE(model->forward(x, hops.batch(), {}).equal(plain));
  EXPECT_TRUE(x.equal(before)) << "the input belongs to the caller";
}

TEST(Model, ActivatesHiddenLayersThatWereProjected) {
  const c10::NoGradGuard no_grad;
  for (const char* kind : {"sage", "gcn", "gin", "gat"}) {
    const TwoHops hops = two_hops(10, 30, 60);
    const auto model = make_model(small(kind));
    const at::Tensor x = random_rows(60, 12, 1);
    const at::Tensor plain = model->forward_layer(0, x, hops.outer.view(), {});
    const at::Tensor combined =
        model->evaluate(0, {.rows = model->project(0, x), .projected = true, .block = hops.outer.view()});
    EXPECT_TRUE(combined.allclose(plain, 1e-5, 1e-5)) << kind;
    EXPECT_GE(combined.min().item<float>(), 0.0f) << kind;
  }
}

/// A user's model, which only has a forward pass.
class OneMap final : public BlockModel {
 public:
  OneMap() : BlockModel({{.output = 3}}) {}
  at::Tensor forward_layer(int, const at::Tensor& x, const sampling::Block& block, const Pass&) override {
    return x.narrow(0, 0, block.num_dst).narrow(1, 0, 3);
  }
};

TEST(Model, TakesDstRowsApart) {
  const c10::NoGradGuard no_grad;
  for (const char* name : {"sage", "sage max"}) {
    const auto model = make_model(small(name));
    ASSERT_TRUE(model->traits().takes_dst_apart);
    const OwnedBlock owned = random_block({.num_dst = 40, .num_src = 70, .seed = 4});
    const at::Tensor x = random_rows(70, 12, 1);
    const at::Tensor plain = model->forward_layer(0, x, owned.view(), {});
    at::Tensor x_dst = x.narrow(0, 0, 40);
    EXPECT_TRUE(
        model->evaluate(0, {.rows = x, .block = owned.view(), .own = x_dst}).allclose(plain, 1e-5, 1e-5));
    // The later half of the dst nodes: lists that begin within `indices`.
    sampling::Block half = owned.view();
    half.indptr += 20;
    half.num_dst = 20;
    half.num_edges = half.indptr[20] - half.indptr[0];
    half.src_nodes = half.src_original_ids = nullptr;
    half.src_in_degrees = nullptr;
    x_dst = x.narrow(0, 20, 20);
    EXPECT_TRUE(model->evaluate(0, {.rows = x, .block = half, .own = x_dst})
                    .allclose(plain.narrow(0, 20, 20), 1e-5, 1e-5));
  }
}

TEST(Model, NeedsOnlyAForwardPass) {
  OneMap model;
  const OwnedBlock block = random_block({.num_dst = 2, .num_src = 4, .seed = 1});
  const at::Tensor x = random_rows(4, 5, 1);
  EXPECT_TRUE(model.evaluate(0, {.rows = x, .block = block.view()}).equal(x.narrow(0, 0, 2).narrow(1, 0, 3)));
  EXPECT_THROW(model.project(0, x), Error);
  EXPECT_THROW(model.evaluate(0, {.rows = x, .projected = true, .block = block.view()}), Error);
  EXPECT_THROW(model.evaluate(0, {.rows = x, .block = block.view(), .own = x}), Error);
  EXPECT_THROW(model.evaluate(0, {.rows = x, .block = block.view(), .piece = {{.before = {}}}}), Error);
}

TEST(Model, RefusesBadOptions) {
  const auto message = [](auto change) {
    ModelOptions options = small("sage");
    change(options);
    try {
      make_model(options);
    } catch (const InputError& e) {
      return std::string(e.what()) + e.remedy();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message([](ModelOptions& o) { o.kind = static_cast<ModelKind>(9); }),
              HasSubstr("sage, gcn, gat, gin, rgcn, rsage, rgat, hgt or none"));
  EXPECT_THAT(message([](ModelOptions& o) { o.kind = ModelKind::gat, o.heads = {3}; }),
              HasSubstr("20 hidden columns"));
  EXPECT_THAT(message([](ModelOptions& o) {
                o.kind = ModelKind::gat, o.heads = {4, 4, 4, 4, 4};
              }),
              HasSubstr("5 numbers of heads"));
  EXPECT_THAT(message([](ModelOptions& o) { o.attention_dropout = 1.0; }), HasSubstr("[0, 1)"));
  EXPECT_THAT(message([](ModelOptions& o) { o.num_layers = 0; }), HasSubstr("at least one layer"));
  EXPECT_THAT(message([](ModelOptions& o) { o.out_cols = 0; }), HasSubstr("12, 20 and 0"));
  EXPECT_THAT(message([](ModelOptions& o) { o.dropout = 1.0; }), HasSubstr("[0, 1)"));
  EXPECT_THAT(message([](ModelOptions& o) { o.input_dropout = std::nan(""); }), HasSubstr("[0, 1)"));
}

TEST(Model, RefusesAMinibatchOfOtherDepth) {
  const TwoHops hops = two_hops(3, 6, 9);
  ModelOptions options = small("sage");
  options.num_layers = 3;
  EXPECT_THROW(make_model(options)->forward(random_rows(9, 12, 1), hops.batch(), {}), Error);
}

}  // namespace
}  // namespace strata::nn
