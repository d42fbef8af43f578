// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/reducer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "collectives/reducer_mpi.hpp"
#include "strata/cuda/stream.hpp"
#include "support/mpi_world.hpp"

namespace strata::comm {
namespace {

using test::world;

/// Values of very different sizes, so that another order of summation gives other bits.
std::vector<float> values_of(int rank, Count count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::vector<float> values(at(count));
  for (float& value : values) {
    value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), static_cast<int>(random() % 20));
  }
  return values;
}

std::vector<float> sum_in_order_of_rank(Count count) {
  std::vector<float> sum = values_of(0, count);
  for (int r = 1; r < world().size(); ++r) {
    const std::vector<float> addend = values_of(r, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
  }
  return sum;
}

/// Bits, for EXPECT_EQ on floats takes -0 for 0.
std::string bits(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

TEST(MpiReducerTest, SumsInOrderOfRankBitForBitForEverySizeAndChunk) {
  const cuda::Stream stream;
  for (const Count chunk : {Count{1}, Count{7}, Count{1000}, Count{1} << 22}) {
    MpiReducer reducer(world().communicator(), Device{}, chunk);
    for (const Count count : {Count{0}, Count{1}, Count{2}, Count{5}, Count{997}}) {
      std::vector<float> values = values_of(world().rank(), count);
      reducer.sum(values.data(), count, stream);
      EXPECT_TRUE(bits(values) == bits(sum_in_order_of_rank(count)))
          << "chunk " << chunk << ", count " << count;
    }
    reducer.close();
  }
}

TEST(MpiReducerTest, GivesTheSameBitsOnAllRanks) {
  const Count count = 100003;
  std::vector<float> values = values_of(world().rank(), count);
  MpiReducer reducer(world().communicator(), Device{});
  reducer.sum(values.data(), count, cuda::Stream());
  for (const std::string& other : world().communicator().all_gather(bits(values)))
    EXPECT_TRUE(other == bits(values));
  reducer.close();
}

TEST(MakeAllReducer, ChoosesTheRanksOwnMessagesForTheCpu) {
  const Topology topology = discover(world().communicator(), {.compute = TopologyOptions::Compute::cpu});
  const auto reducer = make_all_reducer(world().communicator(), topology, Device{});
  EXPECT_STREQ(reducer->name(), world().backend());
  float one = 1;
  reducer->sum(&one, 1, cuda::Stream());
  EXPECT_EQ(one, static_cast<float>(world().size()));
  reducer->close();
}

}  // namespace
}  // namespace strata::comm
