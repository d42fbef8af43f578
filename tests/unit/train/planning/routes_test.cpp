// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/routes.hpp"

#include <gtest/gtest.h>

#include "planned_run.hpp"
#include "planning/plan.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::train {
namespace {

constexpr batches::Transport kAny = batches::Transport::automatic, kNccl = batches::Transport::nccl,
                             kMpi = batches::Transport::mpi;

/// Machines of two ranks; `gpus`: each rank has a GPU of its own.
comm::Topology machines(int count, bool gpus) {
  plan::Cluster cluster;
  cluster.machines = count;
  cluster.ranks = 2;
  cluster.gpus = gpus ? 2 : 0;
  return topology_of(cluster);
}

/// Of batches that GPUs sample in messages of one size.
batches::RouteRequest request(batches::Transport exchange) {
  return {.exchange = exchange, .padded = true, .bounded = true};
}

TEST(Routes, GoFromGpuToGpuOnlyBetweenMachinesWhereEveryRankHasAGpu) {
  for (const batches::Transport transport : {kAny, kMpi}) {
    const batches::RouteRequest wanted = request(transport);
    EXPECT_EQ(batches::choose_routes(machines(1, false), wanted), kThroughHosts);
    EXPECT_EQ(batches::choose_routes(machines(1, true), wanted), kThroughHosts);
    EXPECT_EQ(batches::choose_routes(machines(2, false), wanted), kThroughHosts);
  }
  EXPECT_EQ(batches::choose_routes(machines(2, true), request(kAny)), kFromGpuToGpu);
  EXPECT_EQ(batches::choose_routes(machines(3, true), request(kNccl)), kFromGpuToGpu);
  comm::Topology shared = machines(2, true);
  shared.gpu_per_rank = false;
  EXPECT_EQ(batches::choose_routes(shared, request(kAny)), kThroughHosts);
}

TEST(Routes, LetHostsAskWhereMessagesHaveNoFixedSize) {
  const comm::Topology topology = machines(2, true);
  for (const batches::Transport transport : {kAny, kNccl}) {
    batches::RouteRequest wanted = request(transport);
    wanted.bounded = false;
    EXPECT_EQ(batches::choose_routes(topology, wanted), (batches::Routes{.rows = kNccl, .requests = kNccl}));
    wanted.padded = false;
    EXPECT_EQ(batches::choose_routes(topology, wanted), (batches::Routes{.rows = kNccl}));
    wanted.bounded = true;
    EXPECT_EQ(batches::choose_routes(topology, wanted), (batches::Routes{.rows = kNccl}));
    wanted.padded = wanted.replicated = true;
    EXPECT_EQ(batches::choose_routes(topology, wanted), (batches::Routes{.rows = kNccl, .requests = kNccl}))
        << "no neighbors are asked for";
  }
}

TEST(Routes, AreRequestedByAConfig) {
  TrainConfig config;
  config.fanouts = {5, 3};
  EXPECT_EQ(route_request(config), request(kAny));
  config.exchange = kMpi;
  EXPECT_EQ(route_request(config), request(kMpi));
  const auto expect_unbounded = [](const auto& change) {
    TrainConfig changed;
    changed.fanouts = {5, 3};
    change(changed);
    EXPECT_FALSE(route_request(changed).bounded);
    EXPECT_TRUE(route_request(changed).padded);
  };
  expect_unbounded([](TrainConfig& c) { c.fanouts = {5, -1}; });
  expect_unbounded([](TrainConfig& c) { c.sampler = SamplerKind::labor; });
  expect_unbounded([](TrainConfig& c) { c.sampler_device = comm::TopologyOptions::Compute::cpu; });
  config.own_model = "mine";
  EXPECT_FALSE(route_request(config).padded) << "it may not tolerate padding";
}

TEST(Routes, AreRefusedWhereNcclIsRequestedAndCannotBeHad) {
  EXPECT_NO_THROW(batches::check_routes(machines(2, true), request(kNccl)));
  for (const batches::Transport transport : {kAny, kMpi})
    EXPECT_NO_THROW(batches::check_routes(machines(1, false), request(transport)));
  const batches::RouteRequest wanted = request(kNccl);
  test::expect_error<InputError>([&] { batches::check_routes(machines(1, true), wanted); },
                                 {"--exchange nccl is not possible here", "one machine", "--exchange auto"});
  test::expect_error<InputError>([&] { batches::check_routes(machines(2, false), wanted); },
                                 {"--exchange nccl is not possible here", "0 of 4 ranks"});
}

}  // namespace
}  // namespace strata::train
