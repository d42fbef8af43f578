// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/reducer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "collectives/reducer_mpi.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/mpi_world.hpp"
#include "topology/topology.hpp"

namespace strata::comm {
namespace {

using test::world;

std::vector<float> values_of(int rank, Count count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(at(count));
  for (float& value : values) value = uniform(random);
  return values;
}

/// The sum of what all ranks hold, made by `reducer` in device memory.
std::vector<float> sum_on_device(AllReducer& reducer, Device device, Count count) {
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream(device);
  std::vector<float> values = values_of(world().rank(), count);
  if (count == 0) {
    reducer.sum(nullptr, 0, stream);
    return values;
  }
  const std::size_t bytes = values.size() * sizeof(float);
  const cuda::Array<float> on_device(cuda::Memory::device, count, "a test buffer", device);
  cuda::copy_async(on_device.data(), values.data(), bytes, stream);
  reducer.sum(on_device.data(), count, stream);
  cuda::copy_async(values.data(), on_device.data(), bytes, stream);
  stream.synchronize();
  return values;
}

std::string bits(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

void expect_same_bits_on_all_ranks(const std::vector<float>& values) {
  const std::string own = bits(values);
  for (const std::string& other : world().communicator().all_gather(own)) EXPECT_TRUE(other == own);
}

/// Every rank on the first GPU, whatever there is.
Topology share_one_gpu() {
  const std::vector<RankFacts> facts(
      at(world().size()), {.host = "h", .host_leader = 0, .gpus = {cuda::device_uuid(0)}, .options = {}});
  return arrange(facts);
}

class GpuReducer : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  Device device(const Topology& topology) const { return topology.ranks[at(world().rank())].device; }
};

class NcclReducerTest : public GpuReducer {
 protected:
  void SetUp() override {
    if (cuda::device_count() < world().size() || world().size() < 2) {
      GTEST_SKIP() << "needs two ranks and a GPU for each; ranks " << world().size() << ", GPUs "
                   << cuda::device_count();
    }
    topology_ = discover(world().communicator(), {});
    if (!topology_.gpu_per_rank) GTEST_SKIP() << "GPUs are shared";
  }
  Topology topology_;
};

TEST_F(GpuReducer, UsesMpiWhereRanksShareAGpuAndWhereOneIsAlone) {
  const Topology topology = share_one_gpu();
  const auto reducer = make_all_reducer(world().communicator(), topology, device(topology));
  EXPECT_STREQ(reducer->name(), "mpi");
  for (const Count count : {0, 1, 1000, 123457}) {
    std::vector<float> expected = values_of(0, count);
    for (int r = 1; r < world().size(); ++r) {
      const std::vector<float> addend = values_of(r, count);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += addend[i];
    }
    EXPECT_TRUE(bits(sum_on_device(*reducer, device(topology), count)) == bits(expected))
        << count << " values";
  }
  reducer->close();
}

TEST_F(GpuReducer, StagesBuffersLargerThanItsChunk) {
  const Topology topology = share_one_gpu();
  MpiReducer whole(world().communicator(), device(topology));
  MpiReducer pieces(world().communicator(), device(topology), 1000);
  const Count count = 12345;
  EXPECT_TRUE(bits(sum_on_device(whole, device(topology), count)) ==
              bits(sum_on_device(pieces, device(topology), count)));
  whole.close();
  pieces.close();
}

TEST_F(NcclReducerTest, AgreesWithMpi) {
  const auto nccl = make_all_reducer(world().communicator(), topology_, device(topology_));
  MpiReducer mpi(world().communicator(), device(topology_));
  EXPECT_STREQ(nccl->name(), "nccl");
  for (const Count count : {0, 1, 3, 1000, 10000019}) {
    const std::vector<float> sums = sum_on_device(*nccl, device(topology_), count);
    const std::vector<float> expected = sum_on_device(mpi, device(topology_), count);
    float worst = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) worst = std::max(worst, std::abs(sums[i] - expected[i]));
    EXPECT_LE(worst, 1e-6f * static_cast<float>(world().size())) << count << " values";
  }
  nccl->close();
  mpi.close();
}

TEST_F(NcclReducerTest, GivesTheSameBitsOnAllRanksAndAgain) {
  std::string first;
  for (int run = 0; run < 2; ++run) {
    const auto reducer = make_all_reducer(world().communicator(), topology_, device(topology_));
    const std::vector<float> sums = sum_on_device(*reducer, device(topology_), 100003);
    expect_same_bits_on_all_ranks(sums);
    if (run == 0) first = bits(sums);
    EXPECT_TRUE(bits(sums) == first);
    reducer->close();
  }
}

TEST_F(NcclReducerTest, MayBeLeftUnclosed) {
  const auto reducer = make_all_reducer(world().communicator(), topology_, device(topology_));
  sum_on_device(*reducer, device(topology_), 1000);
}

}  // namespace
}  // namespace strata::comm
