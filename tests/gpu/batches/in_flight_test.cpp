// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "strata/batches/pipeline.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::batches {
namespace {

using test::RunSetup;

constexpr Count kCols = 12;

template <typename T>
std::vector<T> on_host(const T* data, Count size, const cuda::Stream& stream) {
  std::vector<T> copy(at(size));
  cuda::copy_async(copy.data(), data, copy.size() * sizeof(T), stream);
  stream.synchronize();
  return copy;
}

struct SeenBatch {
  Count step = 0;
  std::vector<NodeId> inputs;
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  bool operator==(const SeenBatch&) const = default;
};

/// How rows and neighbors come from other machines, each of which has one rank.
class InFlightOnGpu : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    run_.emplace(1, comm::TopologyOptions::Compute::cuda);
    if (GetParam() == Transport::nccl && (run_->topology.num_machines() == 1 || !run_->topology.gpu_per_rank))
      GTEST_SKIP() << "needs two ranks and a GPU for each";
    const comm::Communicator& world = test::world().communicator();
    directory_ = test::common_folder("in_flight");
    dataset_ = test::random_dataset(
        {.num_nodes = 3000, .num_edges = 30000, .feature_cols = kCols, .with_labels = true, .seed = 4});
    if (world.rank() == 0) parts_.emplace(*dataset_, world.size(), directory_, 5);
    world.barrier();
    graph_.emplace(batches::load_parts(directory_, run_->ranks(), {}));
    world.barrier();
  }
  void TearDown() override {
    if (graph_) graph_->close(run_->machine);
  }

  Pipeline make(int batches_in_flight, sampling::Method method = sampling::Method::uniform) {
    return Pipeline({.ranks = run_->ranks(),
                     .graph = &*graph_,
                     .sample_pool = &sample_pool_,
                     .gather_pool = &gather_pool_},
                    {.sampler = {.fanouts = {4, 3}, .method = method},
                     .global_batch = 60,
                     .seed = 9,
                     .pad = true,
                     .exchange = GetParam(),
                     .batches_in_flight = batches_in_flight,
                     .may_overlap_launches = true,
                     .targets = labels_of(*graph_)});
  }

  std::vector<SeenBatch> load(Pipeline& pipeline, const Pipeline::Steps& steps) const {
    const cuda::DeviceGuard guard(run_->machine.device());
    const cuda::Stream stream(run_->machine.device());
    std::vector<SeenBatch> batches;
    pipeline.begin(steps);
    while (const LoadedBatch* batch = pipeline.next(stream)) {
      const Count inputs = batch->num_inputs;
      batches.push_back({.step = batch->step_in_epoch,
                         .inputs = on_host(batch->sample.input_nodes(), inputs, stream),
                         .features = on_host(batch->features, inputs * kCols, stream),
                         .labels = on_host(batch->targets, batch->num_targets, stream)});
      pipeline.release(*batch, stream);
    }
    return batches;
  }

  std::filesystem::path directory_;
  std::unique_ptr<graph::Graph> dataset_;
  std::optional<test::PartitionedDataset> parts_;
  std::optional<RunSetup> run_;
  std::optional<store::MachineGraph> graph_;
  ThreadPool sample_pool_{2}, gather_pool_{2};
};

TEST_P(InFlightOnGpu, GivesTheSameBatchesForEveryNumber) {
  Pipeline usual = make(0);
  const Pipeline::Steps steps{.epoch = 1, .first = 0, .end = usual.steps_per_epoch()};
  const auto expected = load(usual, steps);
  usual.close();
  ASSERT_GT(std::ssize(expected), 8);
  for (const int batches : {2, 4, 5, 6, 8}) {
    Pipeline pipeline = make(batches);
    EXPECT_EQ(pipeline.batches_in_flight(), batches);
    if (GetParam() == Transport::mpi) {
      EXPECT_FALSE(pipeline.launches_overlap());
    } else if (batches > Pipeline::kBuffers) {
      EXPECT_TRUE(pipeline.launches_overlap());
    }
    EXPECT_EQ(pipeline.most_launch_blocks() > 0, pipeline.launches_overlap());
    for (int times = 0; times < 2; ++times)
      EXPECT_EQ(load(pipeline, steps), expected) << batches << " in flight, time " << times;
    const cuda::Stream stream(run_->machine.device());
    pipeline.begin(steps);
    const LoadedBatch* batch = pipeline.next(stream);
    ASSERT_NE(batch, nullptr);
    pipeline.release(*batch, stream);
    pipeline.end();  // at the same batch on all ranks
    EXPECT_EQ(load(pipeline, steps), expected) << batches << " in flight, begun anew";
    pipeline.close();
  }
}

TEST_P(InFlightOnGpu, GivesTheSameBatchesWhereHostsLookAtIds) {
  Pipeline usual = make(3, sampling::Method::labor);
  const Pipeline::Steps steps{.epoch = 1, .first = 0, .end = usual.steps_per_epoch()};
  const auto expected = load(usual, steps);
  usual.close();
  Pipeline six = make(6, sampling::Method::labor);
  EXPECT_EQ(load(six, steps), expected);
  six.close();
  Pipeline pipeline = make(0, sampling::Method::labor);
  EXPECT_EQ(pipeline.wants_step_times(), run_->topology.num_machines() > 1) << "more are worth a try";
  EXPECT_EQ(load(pipeline, steps), expected);
  if (pipeline.wants_step_times()) {
    pipeline.note_step_times({}, 1, steps.end);
    pipeline.note_step_times({}, 1, steps.end);
    EXPECT_GT(pipeline.batches_in_flight(), Pipeline::kBuffers);
    EXPECT_EQ(load(pipeline, steps), expected);
    pipeline.note_step_times({}, 0, steps.end);
    pipeline.note_step_times({}, 0.5, steps.end);
    EXPECT_GT(pipeline.batches_in_flight(), Pipeline::kBuffers) << "they were faster";
  }
  EXPECT_FALSE(pipeline.wants_step_times());
  pipeline.close();
}

TEST_P(InFlightOnGpu, TakesMoreWhereRoundTripsAreSlow) {
  Pipeline pipeline = make(0);
  const Pipeline::Steps steps{.epoch = 1, .first = 0, .end = pipeline.steps_per_epoch()};
  const auto expected = load(pipeline, steps);
  if (pipeline.wants_step_times()) {             // the link decides
    pipeline.note_step_times({}, 1, steps.end);  // the first steps do not count
    EXPECT_EQ(pipeline.batches_in_flight(), Pipeline::kBuffers);
    EXPECT_EQ(load(pipeline, steps), expected);
    // As if a step had taken nothing but its round trips.
    pipeline.note_step_times({}, 1e-9 * static_cast<double>(steps.end), steps.end);
    EXPECT_GT(pipeline.batches_in_flight(), Pipeline::kBuffers);
    EXPECT_EQ(load(pipeline, steps), expected);
    pipeline.note_step_times({}, 0, steps.end);
    pipeline.note_step_times({}, 1, steps.end);
    EXPECT_EQ(pipeline.batches_in_flight(), Pipeline::kBuffers) << "more were slower";
    EXPECT_EQ(load(pipeline, steps), expected);
  }
  EXPECT_FALSE(pipeline.wants_step_times());
  pipeline.close();
}

INSTANTIATE_TEST_SUITE_P(Transports, InFlightOnGpu, testing::Values(Transport::mpi, Transport::nccl),
                         [](const auto& info) { return info.param == Transport::mpi ? "Mpi" : "Nccl"; });

}  // namespace
}  // namespace strata::batches
