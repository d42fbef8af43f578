// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/pipeline.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "strata/batches/placed_graph.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::batches {
namespace {

using test::RunSetup;

/// What a batch says, copied from the pipeline's buffers.
struct SeenBatch {
  Count step = 0, num_global_seeds = 0;
  std::vector<NodeId> seeds, inputs, input_original_ids;
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  bool operator==(const SeenBatch&) const = default;
};

/// A graph in as many parts as ranks, on machines of so many ranks (0: one machine).
class PipelineTest : public testing::TestWithParam<int> {
 protected:
  static constexpr Count kGlobalBatch = 60, kCols = 7;

  void SetUp() override {
    directory_ = test::common_folder("pipeline");
    const comm::Communicator& world = test::world().communicator();
    dataset_ = test::random_dataset(
        {.num_nodes = 900, .num_edges = 4000, .feature_cols = kCols, .with_labels = true, .seed = 4});
    if (world.rank() == 0) parts_.emplace(*dataset_, world.size(), directory_, 5);
    world.barrier();
    run_.emplace(GetParam());
    graph_.emplace(batches::load_parts(directory_, run_->ranks(), {}));
    world.barrier();
  }
  void TearDown() override { graph_->close(run_->machine); }

  PipelineParts parts() {
    return {.ranks = run_->ranks(),
            .graph = &*graph_,
            .sample_pool = &sample_pool_,
            .gather_pool = &gather_pool_};
  }
  PipelineOptions options() const {
    return {.sampler = {.fanouts = {4, 3}},
            .global_batch = kGlobalBatch,
            .seed = 9,
            .targets = labels_of(*graph_)};
  }

  static SeenBatch copy_of(const LoadedBatch& batch) {
    const sampling::Block& last = batch.sample.blocks.back();
    const sampling::Block& first = batch.sample.blocks.front();
    SeenBatch seen;
    seen.step = batch.step_in_epoch;
    seen.num_global_seeds = batch.num_global_seeds;
    seen.seeds.assign(last.src_nodes, last.src_nodes + last.num_dst);
    seen.inputs.assign(first.src_nodes, first.src_nodes + first.num_src);
    seen.input_original_ids.assign(first.src_original_ids, first.src_original_ids + first.num_src);
    if (batch.features != nullptr)
      seen.features.assign(batch.features, batch.features + first.num_src * kCols);
    if (batch.targets != nullptr) seen.labels.assign(batch.targets, batch.targets + batch.num_targets);
    return seen;
  }
  static std::vector<SeenBatch> load(Pipeline& pipeline, const Pipeline::Steps& steps) {
    std::vector<SeenBatch> batches;
    pipeline.begin(steps);
    while (const LoadedBatch* batch = pipeline.next({})) {
      batches.push_back(copy_of(*batch));
      pipeline.release(*batch, {});
    }
    return batches;
  }
  /// As if stages had done nothing but wait for round trips.
  static LoaderTimes times_of_rounds(const Pipeline& pipeline) {
    Count sample_rounds = 0;
    for (const auto& hop : pipeline.neighbor_exchange().traffic) sample_rounds += hop.rounds;
    const auto of = [&](Count rounds) { return static_cast<double>(rounds) * pipeline.link().round_seconds; };
    return {.sample = of(sample_rounds), .gather = of(pipeline.row_exchange_report().rounds)};
  }
  static Count sum_over_ranks(Count value) {
    test::world().communicator().all_reduce(std::span(&value, 1));
    return value;
  }

  std::filesystem::path directory_;
  std::unique_ptr<graph::Graph> dataset_;
  std::optional<test::PartitionedDataset> parts_;
  std::optional<RunSetup> run_;
  std::optional<store::MachineGraph> graph_;
  ThreadPool sample_pool_{2}, gather_pool_{2};
};

TEST_P(PipelineTest, GivesEverySeedToOneRank) {
  Pipeline pipeline(parts(), options());
  ASSERT_GT(pipeline.steps_per_epoch(), 2);
  const auto batches = load(pipeline, {.epoch = 1, .first = 0, .end = pipeline.steps_per_epoch()});
  ASSERT_EQ(std::ssize(batches), pipeline.steps_per_epoch());
  Count all = 0;
  for (Count step = 0; step < pipeline.steps_per_epoch(); ++step) {
    const SeenBatch& batch = batches[at(step)];
    EXPECT_EQ(batch.step, step);
    EXPECT_EQ(batch.seeds, pipeline.seeds_of(1, step)) << "step " << step;
    EXPECT_EQ(sum_over_ranks(std::ssize(batch.seeds)), batch.num_global_seeds) << "step " << step;
    EXPECT_EQ(batch.num_global_seeds, pipeline.num_global_seeds(step, step + 1)) << "step " << step;
    all += batch.num_global_seeds;
  }
  EXPECT_EQ(all, pipeline.num_seeds());
  pipeline.close();
}

TEST_P(PipelineTest, BringsRowsAndLabels) {
  const std::vector<float> rows = test::features_as_floats(*dataset_);
  Pipeline pipeline(parts(), options());
  for (const SeenBatch& batch : load(pipeline, {.epoch = 0, .first = 0, .end = 3})) {
    std::vector<float> expected;
    for (const NodeId id : batch.input_original_ids)
      expected.insert(expected.end(), rows.begin() + id * kCols, rows.begin() + (id + 1) * kCols);
    EXPECT_EQ(batch.features, expected) << "step " << batch.step;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < batch.seeds.size(); ++i)
      labels.push_back(dataset_->labels[at(batch.input_original_ids[i])]);
    EXPECT_EQ(batch.labels, labels) << "step " << batch.step;
  }
  pipeline.close();
}

TEST_P(PipelineTest, LeavesRowsToItsCaller) {
  Pipeline pipeline(parts(), options()), usual(parts(), options());
  const Pipeline::Steps steps{.epoch = 0, .first = 0, .end = pipeline.steps_per_epoch()};
  const auto expected = load(usual, steps);
  std::vector<cuda::Array<float>> kept;
  pipeline.begin(steps);
  while (const LoadedBatch* batch = pipeline.next({})) {
    cuda::Array<float> rows;
    pipeline.exchange_features(*batch, rows);
    EXPECT_EQ(rows.data(), batch->features);
    kept.push_back(std::move(rows));
    pipeline.release(*batch, {});
  }
  ASSERT_EQ(kept.size(), expected.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::vector<float>& rows = expected[i].features;
    EXPECT_EQ(std::vector<float>(kept[i].data(), kept[i].data() + rows.size()), rows) << "step " << i;
  }
  usual.close();
  pipeline.close();
}

TEST_P(PipelineTest, GoesThroughOtherNodesInTheirOrder) {
  const std::vector<NodeId> nodes{7, 3, 500, 12, 899, 4, 44, 45, 46, 47};
  PipelineOptions of_nodes = options();
  of_nodes.epoch = {.nodes = nodes, .shuffle = false, .drop_last = true};
  of_nodes.global_batch = 4;
  Pipeline pipeline(parts(), of_nodes);
  ASSERT_EQ(pipeline.steps_per_epoch(), 2);
  const auto batches = load(pipeline, {.epoch = 5, .first = 0, .end = 2});
  for (std::size_t step = 0; step < 2; ++step) {
    EXPECT_EQ(batches[step].num_global_seeds, 4);
    EXPECT_EQ(sum_over_ranks(std::ssize(batches[step].seeds)), 4);
    for (const NodeId seed : batches[step].seeds)
      EXPECT_EQ(std::count(nodes.begin() + 4 * static_cast<long>(step),
                           nodes.begin() + 4 * static_cast<long>(step + 1), seed),
                1);
  }
  pipeline.close();
}

TEST_P(PipelineTest, LeavesOutWhatIsNotAskedFor) {
  PipelineOptions nothing = options();
  nothing.gather = false;
  nothing.targets = {};
  Pipeline pipeline(parts(), nothing);
  for (const SeenBatch& batch : load(pipeline, {.epoch = 0, .first = 0, .end = 2})) {
    EXPECT_TRUE(batch.features.empty());
    EXPECT_TRUE(batch.labels.empty());
    EXPECT_FALSE(batch.inputs.empty() && !batch.seeds.empty());
  }
  pipeline.close();
}

TEST_P(PipelineTest, GivesTheSameBatchesWithoutOverlap) {
  PipelineOptions in_turn = options();
  in_turn.overlap = false;
  Pipeline pipeline(parts(), options()), slow(parts(), in_turn);
  const Pipeline::Steps steps{.epoch = 2, .first = 1, .end = pipeline.steps_per_epoch()};
  EXPECT_EQ(load(pipeline, steps), load(slow, steps));
  slow.close();
  pipeline.close();
}

TEST_P(PipelineTest, GivesTheSameBatchesForEveryNumberInFlight) {
  Pipeline usual(parts(), options());
  const Pipeline::Steps steps{.epoch = 1, .first = 0, .end = usual.steps_per_epoch()};
  const auto expected = load(usual, steps);
  for (const int batches : {2, 4, 5, 8}) {
    PipelineOptions chosen = options();
    chosen.batches_in_flight = batches;
    Pipeline pipeline(parts(), chosen);
    EXPECT_EQ(pipeline.batches_in_flight(), batches);
    EXPECT_FALSE(pipeline.wants_step_times());
    EXPECT_EQ(load(pipeline, steps), expected) << batches << " in flight";
    const LoadedBatch* batch = nullptr;
    pipeline.begin(steps);
    batch = pipeline.next({});
    ASSERT_NE(batch, nullptr);
    pipeline.release(*batch, {});
    pipeline.end();  // at the same batch on all ranks
    EXPECT_EQ(load(pipeline, steps), expected) << batches << " in flight, begun anew";
    pipeline.close();
  }
  usual.close();
}

TEST_P(PipelineTest, HidesRoundTripsBehindMoreBatches) {
  Pipeline pipeline(parts(), options());
  const Pipeline::Steps steps{.epoch = 1, .first = 0, .end = pipeline.steps_per_epoch()};
  const auto expected = load(pipeline, steps);
  const bool distributed = run_->topology.num_machines() > 1;
  ASSERT_EQ(pipeline.wants_step_times(), distributed);
  EXPECT_EQ(pipeline.batches_in_flight(), Pipeline::kBuffers);
  if (distributed) {
    EXPECT_GT(pipeline.link().round_seconds, 0);
    const Count rows_before = sum_over_ranks(pipeline.row_exchange_report().rows);
    const LoaderTimes rounds = times_of_rounds(pipeline);
    pipeline.note_step_times(rounds, 0.01 * rounds.gather, steps.end);
    EXPECT_GT(pipeline.batches_in_flight(), Pipeline::kBuffers);
    std::vector<std::int64_t> chosen{pipeline.batches_in_flight()};
    test::world().communicator().all_reduce(chosen, comm::Communicator::Op::max);
    EXPECT_EQ(chosen[0], pipeline.batches_in_flight()) << "all ranks have as many";
    EXPECT_EQ(load(pipeline, steps), expected);
    EXPECT_EQ(sum_over_ranks(pipeline.row_exchange_report().rows), 2 * rows_before);
    pipeline.note_step_times({}, 1000 * rounds.gather, steps.end);  // the first steps do not count
    ASSERT_TRUE(pipeline.wants_step_times());
    pipeline.note_step_times({}, 0.01 * rounds.gather, steps.end);
    EXPECT_FALSE(pipeline.wants_step_times());
    EXPECT_EQ(pipeline.batches_in_flight(), chosen[0]) << "they are as fast";
  }
  pipeline.close();
}

TEST_P(PipelineTest, GoesBackToThreeWhereMoreAreSlowerOnAnyRank) {
  Pipeline pipeline(parts(), options());
  if (pipeline.wants_step_times()) {
    const Pipeline::Steps steps{.epoch = 1, .first = 0, .end = pipeline.steps_per_epoch()};
    const auto expected = load(pipeline, steps);
    const LoaderTimes rounds = times_of_rounds(pipeline);
    pipeline.note_step_times(rounds, 0.01 * rounds.gather, steps.end);
    ASSERT_GT(pipeline.batches_in_flight(), Pipeline::kBuffers);
    const Count rows_before = pipeline.row_exchange_report().rows;
    EXPECT_EQ(load(pipeline, steps), expected);
    pipeline.note_step_times({}, 0, steps.end);
    const bool slow = test::world().rank() == test::world().size() - 1;
    pipeline.note_step_times({}, slow ? 1000 * rounds.gather : 0, steps.end);
    EXPECT_FALSE(pipeline.wants_step_times());
    EXPECT_EQ(pipeline.batches_in_flight(), Pipeline::kBuffers);
    EXPECT_EQ(load(pipeline, steps), expected);
    EXPECT_EQ(pipeline.row_exchange_report().rows, 3 * rows_before) << "what more fetchers did counts still";
  }
  pipeline.close();
}

TEST_P(PipelineTest, RoundsOnlyRowsOfOtherMachinesWhereTheyTravelInBf16) {
  const std::vector<float> rows = test::features_as_floats(*dataset_);
  PipelineOptions narrow = options();
  narrow.rows_in_bf16 = true;
  Pipeline pipeline(parts(), narrow);
  const std::span<const NodeId> offsets = graph_->machine_offsets();
  const auto machine = at(run_->machine.index());
  for (const SeenBatch& batch : load(pipeline, {.epoch = 0, .first = 0, .end = 3})) {
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
      const bool own = batch.inputs[i] >= offsets[machine] && batch.inputs[i] < offsets[machine + 1];
      for (Count col = 0; col < kCols; ++col) {
        const float whole = rows[at(batch.input_original_ids[i] * kCols + col)];
        const float got = batch.features[i * kCols + at(col)];
        ASSERT_EQ(got, own ? whole : bf16_to_f32(f32_to_bf16(whole))) << "node " << batch.inputs[i];
      }
    }
  }
  const RowExchangeReport report = pipeline.row_exchange_report();
  EXPECT_EQ(sum_over_ranks(report.rows_sent) > 0, run_->topology.num_machines() > 1);
  EXPECT_EQ(report.row_bytes, report.rows_sent * kCols * 2);
  pipeline.close();
}

TEST_P(PipelineTest, EndsWhereItsCallerStopsAndBeginsAnew) {
  for (const bool overlap : {true, false}) {
    PipelineOptions chosen = options();
    chosen.overlap = overlap;
    Pipeline pipeline(parts(), chosen);
    const Pipeline::Steps steps{.epoch = 0, .first = 0, .end = pipeline.steps_per_epoch()};
    EXPECT_EQ(pipeline.next({}), nullptr) << "before begin()";
    pipeline.begin(steps);
    const LoadedBatch* batch = pipeline.next({});
    ASSERT_NE(batch, nullptr);
    pipeline.end();
    pipeline.release(*batch, {});
    EXPECT_EQ(pipeline.next({}), nullptr) << "after end()";
    EXPECT_EQ(std::ssize(load(pipeline, steps)), pipeline.steps_per_epoch());
    pipeline.release_buffers();
    EXPECT_EQ(std::ssize(load(pipeline, {.epoch = 0, .first = 0, .end = 2})), 2);
    pipeline.close();
  }
}

TEST_P(PipelineTest, CountsTheBytesOfTheRowsThatItReads) {
  Pipeline pipeline(parts(), options());
  Count rows = 0;
  for (const SeenBatch& batch : load(pipeline, {.epoch = 0, .first = 0, .end = 3}))
    rows += std::ssize(batch.inputs);
  EXPECT_EQ(pipeline.take_input_rows(), rows);
  EXPECT_EQ(pipeline.take_input_rows(), 0);
  const auto bytes = pipeline.take_gathered_bytes();
  const auto row_bytes = static_cast<Count>(graph_->features().spec().row_bytes());
  EXPECT_GT(bytes.sum(), 0);
  if (run_->topology.num_machines() == 1) {
    EXPECT_EQ(bytes.sum(), rows * row_bytes);
  }
  EXPECT_EQ(pipeline.take_gathered_bytes(), tensor::ByStratum<std::int64_t>());
  EXPECT_EQ(pipeline.routes(), Routes{});
  EXPECT_FALSE(pipeline.pads());
  EXPECT_EQ(pipeline.launch_order(), nullptr);
  pipeline.close();
}

TEST_P(PipelineTest, RefusesWhatCpusCannotDo) {
  PipelineOptions on_gpu = options();
  on_gpu.sampler_device = comm::TopologyOptions::Compute::cuda;
  test::expect_error<InputError>([&] { Pipeline(parts(), on_gpu); }, {"--sampler-device cuda"});
  PipelineOptions nccl = options();
  nccl.exchange = Transport::nccl;
  test::expect_error<InputError>([&] { Pipeline(parts(), nccl); }, {"--exchange nccl"});
}

INSTANTIATE_TEST_SUITE_P(Machines, PipelineTest, testing::Values(0, 1));

}  // namespace
}  // namespace strata::batches
