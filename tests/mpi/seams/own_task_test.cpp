// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/abs.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "strata/train/task.hpp"
#include "strata/train/trainer.hpp"
#include "support/mpi_world.hpp"
#include "support/run_setup.hpp"

namespace strata {
namespace {

struct SquaredError final : train::Loss {
  Result operator()(const at::Tensor& outputs, const at::Tensor& targets,
                    const at::Tensor& total) const override {
    const at::Tensor error = outputs.detach() - targets.view(at::kFloat);
    return {.gradient = 2 * error / total,
            .outcome = at::stack({error.square().sum(), error.abs().lt(0.5).to(at::kFloat).sum(),
                                  at::zeros({}, error.options()).add(error.size(0))})};
  }
};

struct AbsoluteErrors final : train::ScoreBoard {
  void add(std::span<const float> outputs, const std::int32_t* target) override {
    sums[0] += 1;
    sums[1] += std::abs(outputs[0] - std::bit_cast<float>(*target));
  }
  train::Scores finish(const train::ScoreWork& work) override {
    work.communicator->all_reduce(std::span(sums));
    return {
        .nodes = static_cast<Count>(sums[0]),
        .loss = sums[1] / sums[0],
        .values = {{.name = "mae", .title = "MAE", .value = sums[1] / sums[0], .higher_is_better = false}}};
  }
  std::vector<double> sums = {0, 0};
};

/// The number of a node's class, as if it were a quantity: regression.
struct ClassNumber final : train::Task {
  void require(const train::TaskInput&) const override {}
  Count output_cols(const graph::Manifest&) const override { return 1; }
  batches::SeedTargets targets(const store::MachineGraph& graph) const override {
    numbers.clear();
    for (const std::int32_t label : graph.labels())
      numbers.push_back(std::bit_cast<std::int32_t>(static_cast<float>(label)));
    return {.words = numbers, .missing = {std::bit_cast<std::int32_t>(-1.0f)}};
  }
  std::unique_ptr<train::Loss> make_loss(const store::MachineGraph&, const comm::Ranks&) const override {
    return std::make_unique<SquaredError>();
  }
  std::unique_ptr<train::ScoreBoard> make_board(const graph::Manifest&, Count) const override {
    return std::make_unique<AbsoluteErrors>();
  }
  train::Scores no_scores() const override {
    return {.values = {{.name = "mae", .title = "MAE", .higher_is_better = false}}};
  }
  std::string metric() const override { return "mae"; }
  mutable std::vector<std::int32_t> numbers;
};

TEST(OwnTask, TrainsARegression) {
  train::TrainConfig config;
  config.graph = graph::Source("planted:nodes=2000,classes=4,features=16,degree=10");
  config.fanouts = {5, 5};
  config.hidden = 32;
  config.global_batch_size = 200;
  config.epochs = 20;
  config.dropout = 0;
  config.learning_rate = 0.01;
  config.topology.compute = comm::TopologyOptions::Compute::cpu;
  config.output = (test::common_folder("own_task") / "run").string();
  train::StopListener stop(train::StopListener::ByHand{});
  const ClassNumber task;
  const train::TrainResult result = train::train(config, test::world(), stop, nn::make_model, &task);
  EXPECT_GT(result.test.nodes, 0);
  EXPECT_LT(result.test.of("mae"), 0.85);  // 1.0 for a model that always says the mean
}

}  // namespace
}  // namespace strata
