// SPDX-License-Identifier: Apache-2.0
// strata-partition tells what training takes with strata-train's defaults, which it cannot see.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "strata/nn/model.hpp"
#include "strata/nn/optimizer.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/train/config.hpp"

namespace strata::train {
namespace {

constexpr Count kNodes = 1'500'000, kTrain = 5000, kCols = 100, kClasses = 47;

partition::GraphSummary summarize() {
  graph::Graph graph;
  graph.structure = {
      .num_nodes = kNodes, .indptr = std::vector<Count>(kNodes + 1, 0), .indices = {}, .edge_ids = {}};
  graph.features.cols = kCols;
  graph.num_classes = kClasses;
  for (NodeId v = 0; v < kTrain; ++v) graph.splits.train.push_back(v);
  ThreadPool pool(1);
  return partition::summarize(graph, pool);
}

TEST(DescribedDefaults, AreThoseOfTheModelAndTheOptimizer) {
  const TrainConfig config;
  const auto model = nn::make_model({.kind = config.model,
                                     .aggregate = config.aggregate,
                                     .in_cols = kCols,
                                     .hidden = config.hidden,
                                     .out_cols = kClasses,
                                     .num_layers = config.num_layers()});
  Count parameters = 0;
  for (const at::Tensor& parameter : model->parameters()) parameters += parameter.numel();
  const at::Tensor values = torch::zeros({parameters});
  Count kept = 2 * parameters;  // and gradients
  EXPECT_EQ(config.optimizer, OptimizerKind::adam);
  for (const auto& state : nn::make_optimizer({.kind = nn::OptimizerKind::adam}, values)->state())
    if (state.tensor.numel() == parameters) kept += parameters;
  EXPECT_EQ(config.precision, Precision::f32);
  EXPECT_EQ(summarize().memory.model_bytes, kept * 4);
}

TEST(DescribedDefaults, AreThoseOfTheBatch) {
  const TrainConfig config;
  Count nodes = config.batch_size;
  for (const int fanout : config.fanouts) nodes *= 1 + fanout;
  ASSERT_LT(nodes, kNodes);
  EXPECT_EQ(summarize().memory.batch_row_bytes, nodes * kCols * 4);
  const auto bytes = [&](Count hidden) {
    return plan::training_device_bytes({.fanouts = config.fanouts, .hidden = hidden}, config.batch_size,
                                       kNodes);
  };
  EXPECT_EQ(summarize().memory.batch_activation_bytes, bytes(config.hidden) - bytes(0));
}

TEST(DescribedDefaults, AreNamed) {
  const TrainConfig config;
  const std::string text = summary_text(summarize());
  EXPECT_THAT(text, testing::HasSubstr(fmt::format("SAGE, hidden {}, fanouts {}, {} seeds", config.hidden,
                                                   fmt::join(config.fanouts, ","), config.batch_size)));
  EXPECT_EQ(config.model, nn::ModelKind::sage) << text;
}

}  // namespace
}  // namespace strata::train
