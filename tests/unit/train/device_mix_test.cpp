// SPDX-License-Identifier: Apache-2.0
#include "tuning/device_mix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::train {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// Ranks on one host: 'g' computes on a GPU of its own, 'c' on the cpu.
comm::Topology topology_of(const std::string& ranks) {
  comm::Topology topology;
  for (const char rank : ranks) {
    comm::Topology::Rank& added = topology.ranks.emplace_back();
    added.host = 'a';  // GCC 12 warns of the assignment of a literal (its bug 105329)
    if (rank == 'g') added.device = {.kind = Device::Kind::cuda, .index = 0};
  }
  return topology;
}

TEST(DeviceMix, IsNamed) {
  EXPECT_EQ(device_name(topology_of("ggg")), "cuda");
  EXPECT_EQ(device_name(topology_of("cc")), "cpu");
  EXPECT_EQ(device_name(topology_of("gcg")), "mixed");
  EXPECT_FALSE(is_mixed(topology_of("g")));
  EXPECT_FALSE(is_mixed(topology_of("c")));
  EXPECT_TRUE(is_mixed(topology_of("cg")));
}

TEST(DeviceMix, WarnsOfTheRanksThatOthersWaitFor) {
  EXPECT_THAT(mix_warning(topology_of("ggg")), IsEmpty());
  EXPECT_THAT(mix_warning(topology_of("cc")), IsEmpty());
  EXPECT_THAT(mix_warning(topology_of("gcgg")),
              HasSubstr("rank 1 (host a) computes on the cpu, the other 3 on GPUs"));
  EXPECT_THAT(mix_warning(topology_of("ccg")),
              HasSubstr("ranks 0, 1 (host a) compute on the cpu, the other 1"));
}

TEST(DeviceMix, MeasuresWhatAllRanksCanMeasure) {
  TrainConfig config;
  EXPECT_TRUE(measures_loader_threads(config, topology_of("cc")));
  EXPECT_TRUE(measures_loader_threads(config, topology_of("gc")));
  EXPECT_FALSE(measures_loader_threads(config, topology_of("gg")));
  EXPECT_FALSE(measures_sm_splits(config, topology_of("cc")));
  EXPECT_FALSE(measures_sm_splits(config, topology_of("gc")));
  EXPECT_TRUE(measures_sm_splits(config, topology_of("gg")));
  config.pipeline = false;
  for (const char* ranks : {"cc", "gc", "gg"}) {
    EXPECT_FALSE(measures_loader_threads(config, topology_of(ranks)));
    EXPECT_FALSE(measures_sm_splits(config, topology_of(ranks)));
  }
}

TEST(DeviceMix, RefusesOptionsThatOnlyAGpuCanFollow) {
  const auto expect_refused = [](const std::string& option, const auto& set) {
    TrainConfig config;
    EXPECT_NO_THROW(check_device_options(config, topology_of("gcg")));
    set(config);
    test::expect_error([&] { check_device_options(config, topology_of("gcg")); },
                       {option, "rank 1 (host a) computes on the cpu", "CUDA_VISIBLE_DEVICES"});
    EXPECT_NO_THROW(check_device_options(config, topology_of("gg")));
  };
  expect_refused("--sampler-device cuda",
                 [](TrainConfig& config) { config.sampler_device = comm::TopologyOptions::Compute::cuda; });
  expect_refused("--cuda-graph on", [](TrainConfig& config) { config.cuda_graph = CudaGraphs::on; });
  expect_refused("--sm-split 20,100", [](TrainConfig& config) { config.sm_split = "20,100"; });
}

TEST(DeviceMix, RefusesOptionsThatNoRankCanFollowWithoutGpus) {
  const auto expect_refused = [](const std::string& option, const auto& set) {
    TrainConfig config;
    set(config);
    for (const char* ranks : {"c", "ccc"}) {
      test::expect_error<InputError>(
          [&] { check_device_options(config, topology_of(ranks)); },
          {option + " has no effect", "no rank computes on a GPU", "Leave it out"});
    }
    EXPECT_NO_THROW(check_device_options(config, topology_of("gg"))) << option;
  };
  expect_refused("--precision tf32", [](TrainConfig& config) { config.precision = Precision::tf32; });
  expect_refused("--gpu-memory", [](TrainConfig& config) { config.gpu_memory_bytes = 1; });
  expect_refused("--host-gather threads",
                 [](TrainConfig& config) { config.host_gather = tensor::HostPath::threads; });
  expect_refused("--sampler-device cuda",
                 [](TrainConfig& config) { config.sampler_device = comm::TopologyOptions::Compute::cuda; });
  expect_refused("--cuda-graph on", [](TrainConfig& config) { config.cuda_graph = CudaGraphs::on; });
  expect_refused("--sm-split 20,100", [](TrainConfig& config) { config.sm_split = "20,100"; });
  for (const std::string placement :
       {"replicate", "stripe", "features=0/10/90", "indices=0/0/100,features=1/0/99"})
    expect_refused("--placement " + placement, [&](TrainConfig& config) { config.placement = placement; });
}

TEST(DeviceMix, LetsCpusFollowWhatAsksForNoGpu) {
  TrainConfig config;
  config.cuda_graph = CudaGraphs::off;
  config.sm_split = "off";
  for (const char* placement : {"auto", "host", "in-order", "features=0/0/100"}) {
    config.placement = placement;
    EXPECT_NO_THROW(check_device_options(config, topology_of("cc"))) << placement;
  }
}

/// Machines of one rank each.
comm::Topology spread(comm::Topology topology) {
  topology.gpu_per_rank = true;
  for (std::size_t rank = 0; rank < topology.ranks.size(); ++rank) {
    topology.machines.push_back({static_cast<int>(rank)});
    topology.ranks[rank].machine = static_cast<int>(rank);
    topology.gpu_per_rank = topology.gpu_per_rank && topology.ranks[rank].device.is_cuda();
  }
  return topology;
}

TEST(DeviceMix, RefusesExchangesBetweenGpusThatAreNotThere) {
  TrainConfig config;
  config.exchange = batches::Transport::nccl;
  EXPECT_NO_THROW(check_device_options(config, spread(topology_of("gg"))));
  test::expect_error([&] { check_device_options(config, spread(topology_of("cc"))); },
                     {"--exchange nccl is not possible here", "0 of 2 ranks", "--exchange auto"});
  test::expect_error([&] { check_device_options(config, spread(topology_of("gcg"))); },
                     {"--exchange nccl", "2 of 3 ranks"});
  test::expect_error([&] { check_device_options(config, spread(topology_of("g"))); },
                     {"--exchange nccl", "one machine"});
}

}  // namespace
}  // namespace strata::train
