// SPDX-License-Identifier: Apache-2.0
#include "planning/plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planned_run.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::train {
namespace {

using testing::HasSubstr;

TEST(Loads, CountWhatMachinesSendEachOther) {
  const ExchangeLoads loads = loads_of(two_hops(), {5, 3}, {}, 3, kThroughHosts, plan::wire_bytes(4, 400));
  ASSERT_EQ(loads.hops.size(), 2u);
  EXPECT_EQ(loads.hops[0].bytes, 0);
  EXPECT_EQ(loads.hops[1].bytes, 100 * (4 + 4) + 300 * 4) << "ids, numbers of picks, picks";
  EXPECT_EQ(loads.hops[1].messages, 4 * 2);
  EXPECT_EQ(loads.hops[1].rounds, 4);
  EXPECT_EQ(loads.rows.bytes, 1000 * (8 + 400));
}

TEST(Loads, HaveAMarginAndFewerRoundsFromGpuToGpu) {
  const ExchangeLoads loads = loads_of(two_hops(), {5, 3}, {}, 2, kFromGpuToGpu, plan::wire_bytes(4, 400));
  EXPECT_DOUBLE_EQ(loads.hops[1].bytes, 1.04 * 100 * (4 + 4 + 3 * 4));
  EXPECT_EQ(loads.hops[1].rounds, 2);
  EXPECT_EQ(loads.hops[0].rounds, 0) << "seeds are the machine's own";
}

TEST(Loads, ShrinkWithCachesAndReplication) {
  plan::MemoryPlan memory;
  memory.cached_lists = 0.5;
  memory.cached_rows = 0.25;
  const ExchangeLoads cached =
      loads_of(two_hops(), {5, 3}, memory, 2, kThroughHosts, plan::wire_bytes(4, 400));
  EXPECT_EQ(cached.hops[1].bytes, 50 * 8 + 150 * 4);
  EXPECT_EQ(cached.rows.bytes, 750 * 408);
  memory.replicated = true;
  EXPECT_TRUE(loads_of(two_hops(), {5, 3}, memory, 2, kThroughHosts, plan::wire_bytes(4, 400)).hops.empty());
  const ExchangeLoads alone = loads_of(two_hops(), {5, 3}, {}, 1, kThroughHosts, plan::wire_bytes(4, 400));
  EXPECT_TRUE(alone.hops.empty());
  EXPECT_EQ(alone.rows.bytes, 0);
}

TEST(Plan, TellsMemoryBatchesAndSteps) {
  const TrainConfig config = planted_config();
  const StepPlan plan =
      make_plan(config, plan::parse_cluster("machines=2,gpus=2,gpu-memory=80GiB,host-memory=256GiB"));
  EXPECT_EQ(plan.global_batch, 400);
  EXPECT_EQ(plan.profile.steps_per_epoch, 20);
  EXPECT_GT(plan.profile.remote_inputs, 0);
  EXPECT_LT(plan.efficiency(), 1);
  EXPECT_TRUE(plan.memory.fits_gpu && plan.memory.fits_host);
  const std::string text = plan_text(config, plan);
  EXPECT_THAT(text, HasSubstr("2 machines of 2 GPUs\n        400.0 Gbit/s per rank"));
  EXPECT_THAT(text, HasSubstr("every GPU"));
  EXPECT_THAT(text, HasSubstr("limited by"));
  const nlohmann::json record = plan_record(config, plan);
  EXPECT_EQ(record.at("ranks"), 4);
  EXPECT_EQ(record.at("hops").size(), 2u);
  EXPECT_EQ(record.at("step_seconds"), plan.estimate.step);
}

TEST(Plan, CachesNoMoreThanOtherMachinesHave) {
  TrainConfig config = planted_config();
  config.replicate_graph = plan::Replication::off;
  config.halo_cache_bytes = std::int64_t{32} << 30;
  constexpr std::int64_t kIndex = 16;
  constexpr std::int64_t kOfAllLists = 20000 * (8 + 2 * kIndex + 4) + 200000 * 4,
                         kOfAllRows = 20000 * (32 * 4 + 2 * kIndex);
  for (const char* cluster : {"machines=2,ranks=1", "machines=2,gpus=2"}) {
    const StepPlan plan = make_plan(config, plan::parse_cluster(cluster));
    EXPECT_NEAR(plan.memory.cached_lists, 1, 1e-9) << cluster;
    EXPECT_GT(plan.memory.cache_bytes, kOfAllLists / 3) << cluster;
    EXPECT_LE(plan.memory.cache_bytes, (kOfAllLists + kOfAllRows) * 52 / 100) << cluster;  // edges are random
  }
}

TEST(Plan, SaysWhatDoesNotFit) {
  const TrainConfig config = planted_config();
  const StepPlan plan =
      make_plan(config, plan::parse_cluster("machines=2,gpus=1,gpu-memory=1GiB,host-memory=1MiB"));
  EXPECT_FALSE(plan.memory.fits_gpu);
  EXPECT_FALSE(plan.memory.fits_host);
  EXPECT_THAT(plan_text(config, plan), HasSubstr("TOO MUCH: use more machines\n"));
}

TEST(Plan, CountsTrainingInHostMemoryWhereCpusCompute) {
  TrainConfig config = planted_config();
  const StepPlan plan = make_plan(config, plan::parse_cluster("ranks=2,host-memory=300MiB"));
  const std::int64_t of_rank = plan::training_host_bytes(
      run_shape(config, {}, 2), graph::read_manifest(*config.graph.parts()), plan.profile);
  EXPECT_EQ(plan.memory.training_bytes, 2 * of_rank);
  EXPECT_FALSE(plan.memory.fits_host);
  EXPECT_LT(plan.memory.graph_bytes(), std::int64_t{300} << 20);
  EXPECT_THAT(plan_text(config, plan), HasSubstr("model, batches and libraries of 2 ranks 3"));
  EXPECT_THAT(plan_text(config, plan),
              HasSubstr("TOO MUCH: lower --batch-size, --fanouts or --hidden, or start fewer ranks\n"));
  EXPECT_THAT(
      plan_text(config,
                make_plan(config, plan::parse_cluster(fmt::format("ranks=2,host-memory={}", 2 * of_rank)))),
      HasSubstr("TOO MUCH: use more machines, or lower --batch-size, --fanouts or --hidden\n"));
  EXPECT_EQ(make_plan(config, plan::parse_cluster("gpus=2")).memory.training_bytes, 0);
}

TEST(TrainingHostBytes, GrowWithTheBatchesOfAPipelineAndTheModel) {
  TrainConfig config = planted_config();
  graph::Manifest manifest;
  manifest.feature_cols = 100;
  manifest.num_classes = 4;
  const std::int64_t three = plan::training_host_bytes(run_shape(config, {}, 2), manifest, two_hops());
  const double of_batch = two_hops().inputs * (16 + 400) + (50 + 1500) * 12;
  config.pipeline = false;
  EXPECT_NEAR(
      static_cast<double>(three - plan::training_host_bytes(run_shape(config, {}, 2), manifest, two_hops())),
      2 * 1.25 * of_batch, 2);
  const std::int64_t one = plan::training_host_bytes(run_shape(config, {}, 2), manifest, two_hops());
  config.hidden *= 100;
  EXPECT_GT(plan::training_host_bytes(run_shape(config, {}, 2), manifest, two_hops()),
            one + 100 * 64 * 500 * 8);
}

TEST(Plan, MovesRowsToTheHostWhereGpusAreSmall) {
  TrainConfig config = planted_config();
  config.gpu_memory_bytes = 1 << 20;
  const StepPlan plan = make_plan(config, plan::parse_cluster("gpus=1"));
  EXPECT_GT(plan.memory.feature_bytes, 0);
  EXPECT_LT(plan.memory.feature_bytes, 20000 * 32 * 4);
  EXPECT_THAT(plan_text(config, plan), HasSubstr("host"));
}

TEST(Plan, TakesGivenTimesInsteadOfEstimates) {
  const StepPlan plan =
      make_plan(planted_config(), plan::parse_cluster("gpus=1,compute=7ms,sample=1ms,gather=2ms"));
  EXPECT_DOUBLE_EQ(plan.inputs.compute_seconds, 7e-3);
  EXPECT_DOUBLE_EQ(plan.estimate.step, 7e-3);
  EXPECT_EQ(plan.basis, "given");
}

TEST(Plan, NeedsParts) {
  TrainConfig config = planted_config();
  config.graph = "synthetic:kind=sbm,nodes=500,edges=4000,features=8,classes=3,seed=1";
  test::expect_error<InputError>([&] { make_plan(config, {}); }, {"strata-plan", "planted:"});
}

// On one thread: multiplications of a layer count for its output rows, those of gat for its input rows.
TEST(Plan, CountsTheWorkOfLayers) {
  graph::Manifest manifest;
  manifest.feature_cols = 10;
  manifest.num_classes = 4;
  TrainConfig config = planted_config();
  config.hidden = 20;
  const plan::StepWork sage = plan::work_of(run_shape(config, {}, 1), manifest, two_hops());
  EXPECT_DOUBLE_EQ(sage.flops, 2 * 2 * 500 * (2 * 10 * 20) + 2 * 3 * 10 * (2 * 20 * 4));
  EXPECT_DOUBLE_EQ(sage.aggregated_bytes, 1 * 1500 * 10 * 4 + 2 * 50 * 20 * 4);
  config.model = nn::ModelKind::gat;
  EXPECT_DOUBLE_EQ(plan::work_of(run_shape(config, {}, 1), manifest, two_hops()).flops,
                   2 * 2 * 3000 * 200 + 2 * 3 * 500 * 80);
}

}  // namespace
}  // namespace strata::train
