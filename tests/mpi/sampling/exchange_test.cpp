// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/methods.hpp"
#include "support/mpi_world.hpp"
#include "support/reference_sampler.hpp"
#include "support/topologies.hpp"

namespace strata::sampling {
namespace {

using test::PlainGraph;
using test::SampledEdge;
using test::ViewOwner;

/// Where the ranks sample; they share the first GPU.
class Exchange : public testing::TestWithParam<Device::Kind> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  static Device device() { return {.kind = GetParam(), .index = 0}; }
};
INSTANTIATE_TEST_SUITE_P(Devices, Exchange, testing::Values(Device::Kind::cpu, Device::Kind::cuda),
                         [](const auto& info) { return info.param == Device::Kind::cpu ? "cpu" : "cuda"; });

const BatchKey kKey{.seed = 5, .epoch = 1, .step = 17};

std::vector<int> a_machine_a_rank() {
  std::vector<int> machines(at(test::world().size()));
  std::iota(machines.begin(), machines.end(), 0);
  return machines;
}

std::vector<int> uneven_machines() { return test::uneven_machines(test::world().size()); }

/// Contiguous ranges of uneven sizes; with three machines the second owns few nodes.
std::vector<NodeId> cut(Count num_nodes, int num_machines) {
  if (num_machines == 1) return {0, num_nodes};
  if (num_machines == 2) return {0, num_nodes / 3, num_nodes};
  return {0, num_nodes / 2, num_nodes / 2 + 10, num_nodes};
}

/// The lists of every third node that a machine does not own, as its halo cache; an owner.
class Halo {
 public:
  Halo(const PlainGraph& graph, NodeId first, NodeId last, bool wide) {
    original_ids_ = graph.original_ids;
    indptr_.push_back(0);
    for (NodeId node = 1; node < graph.num_nodes(); node += 3) {
      if (node >= first && node < last) continue;
      nodes_.push_back(node);
      const auto v = at(node);
      for (Count e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) {
        narrow_.push_back(static_cast<std::int32_t>(graph.indices[at(e)]));
        wide_.push_back(graph.indices[at(e)]);
        edge_ids_.push_back(graph.edge_ids[at(e)]);
        if (!graph.weights.empty()) weights_.push_back(graph.weights[at(e)]);
      }
      indptr_.push_back(std::ssize(wide_));
      original_ids_.push_back(graph.original_ids[v]);
    }
    const void* indices = wide ? static_cast<const void*>(wide_.data()) : narrow_.data();
    lists_.index = store::NodeIndex(nodes_, graph.num_nodes());
    lists_.view = {
        {.device = {},
         .num_nodes = graph.num_nodes(),
         .first_node = graph.num_nodes(),
         .num_local = std::ssize(nodes_),
         .original_ids = {.data = original_ids_.data(), .size = std::ssize(original_ids_), .wide = true}},
        {.indptr = indptr_.data(),
         .indices = {.data = indices, .size = std::ssize(wide_), .wide = wide},
         .edge_ids = {.data = edge_ids_.data(), .size = std::ssize(edge_ids_), .wide = true},
         .weights = weights_.empty() ? nullptr : weights_.data()}};
  }
  const store::HaloLists& lists() const { return lists_; }

 private:
  std::vector<NodeId> nodes_, wide_, original_ids_;
  std::vector<std::int32_t> narrow_;
  std::vector<EdgeId> edge_ids_;
  std::vector<float> weights_;
  std::vector<Count> indptr_;
  store::HaloLists lists_;
};

struct Scenario {
  std::vector<PlainGraph> graph;  // one; in the partition's ids
  comm::Topology topology;
  std::vector<NodeId> offsets;
  std::vector<std::vector<NodeId>> seeds;  // of each rank
  SamplerOptions options;
  Device device;
  bool wide = false;
  bool with_halo = false;
  /// Of requests from device to device, by hop; empty: they pass through the host.
  std::vector<Count> caps = {};
  std::chrono::milliseconds longest_delay{0};  ///< of a rank before each minibatch, at random

  /// The blocks of the last of some equal batches; `can_be_padded` gets each one's.
  std::vector<test::PlainBlock> sample(ExchangeReport* report = nullptr, int repetitions = 1,
                                       std::vector<bool>* can_be_padded = nullptr) const {
    const int rank = test::world().rank();
    const auto machine = at(topology.ranks[at(rank)].machine);
    const ViewOwner owner(
        graph.front(),
        {.first = offsets[machine], .last = offsets[machine + 1], .wide = wide, .device = device});
    const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
    ThreadPool pool(2);
    comm::Communicator communicator = test::world().communicator().duplicate();
    const Halo halo(graph.front(), offsets[machine], offsets[machine + 1], wide);
    const auto wire = caps.empty() ? nullptr : make_wire();
    auto sampler = make_sampler(owner.view(), options,
                                {.communicator = &communicator,
                                 .topology = &topology,
                                 .machine_offsets = offsets,
                                 .halo = with_halo ? &halo.lists() : nullptr,
                                 .pool = &pool,
                                 .on_devices = wire.get()},
                                1, pool);
    if (PaddedShape shape = sampler->bounds(); wire && !shape.nodes.empty()) {
      shape.requests = caps;
      sampler->pad_nodes(shape);
    }
    std::vector<test::PlainBlock> blocks;
    std::mt19937_64 random(static_cast<std::uint64_t>(rank));
    for (int i = 0; i < repetitions; ++i) {
      if (longest_delay.count() > 0)
        std::this_thread::sleep_for(longest_delay * static_cast<double>(random() % 1000) / 1000);
      const MiniBatch batch = sampler->sample(seeds[at(rank)], kKey, 0, stream);
      blocks = test::plain_blocks(batch, stream);
      if (can_be_padded != nullptr) can_be_padded->push_back(batch.can_be_padded);
    }
    if (report != nullptr) *report = sampler->report();
    sampler.reset();  // its recordings end before the wire
    if (wire) wire->close();
    communicator.close();
    return blocks;
  }

  /// Over NCCL where every rank has a GPU of its own.
  std::unique_ptr<comm::DeviceExchange> make_wire() const {
    const comm::Communicator& world = test::world().communicator();
    return cuda::device_count() >= world.size() && world.size() > 1
               ? comm::make_device_exchange(world, device)
               : comm::make_mpi_exchange(world, device);
  }
};

std::set<SampledEdge> union_over_ranks(const std::set<SampledEdge>& mine) {
  const std::vector<SampledEdge> list(mine.begin(), mine.end());
  const std::string blob(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(SampledEdge));
  std::set<SampledEdge> all;
  for (const std::string& part : test::world().communicator().all_gather(blob)) {
    std::vector<SampledEdge> edges(part.size() / sizeof(SampledEdge));
    std::copy(part.begin(), part.end(), reinterpret_cast<char*>(edges.data()));
    all.insert(edges.begin(), edges.end());
  }
  return all;
}

/// All ranks make the same one; the seeds lie anywhere, owned or not.
Scenario make_scenario(Device device, const std::vector<int>& machines, const std::vector<int>& fanouts,
                       const std::vector<Count>& seeds_of_ranks) {
  Scenario scenario{.graph = {test::renumbered(
                        test::random_graph({.num_nodes = 2000, .mean_degree = 6, .hub_degree = 5000}), 8)},
                    .topology = test::topology_of(machines),
                    .offsets = {},
                    .seeds = {},
                    .options = {.fanouts = fanouts,
                                .max_seeds = 100,
                                .edge_ids = true,
                                .in_degrees = true,
                                .transpose = true,
                                .sorted_inputs = true},
                    .device = device};
  scenario.offsets = cut(2000, scenario.topology.num_machines());
  const auto all = test::random_nodes(300, 0, 2000, 3);
  Count next = 0;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const Count count = seeds_of_ranks[rank % seeds_of_ranks.size()];
    scenario.seeds.emplace_back(all.begin() + next, all.begin() + next + count);
    next += count;
  }
  return scenario;
}

// Even the blocks are those of a rank that has the whole graph.
void expect_reference(const Scenario& scenario) {
  const auto& seeds = scenario.seeds[at(test::world().rank())];
  const int repetitions = scenario.caps.empty() ? 1 : 3;  // the second one is recorded, the third replays it
  test::expect_equal(scenario.sample(nullptr, repetitions),
                     test::reference_blocks(scenario.graph.front(), seeds, scenario.options, kKey));
}

TEST_P(Exchange, GivesTheBlocksOfTheWholeGraph) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {-1}, {3, -1}, {0, 2}}) {
    expect_reference(make_scenario(device(), a_machine_a_rank(), fanouts, {30, 50, 10}));
    expect_reference(make_scenario(device(), uneven_machines(), fanouts, {30, 50, 10}));
  }
}

/// The same scenario with neighbors chosen otherwise.
Scenario with_method(Scenario scenario, const test::MethodCase& method) {
  const SamplerOptions options = method.options({}, 0);
  scenario.options.method = options.method;
  scenario.options.replace = options.replace;
  scenario.options.layer_dependent = options.layer_dependent;
  scenario.options.new_nodes_only = options.new_nodes_only;
  return scenario;
}

TEST_P(Exchange, GivesTheBlocksOfTheWholeGraphForEveryMethod) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {3, -1}}) {
      expect_reference(
          with_method(make_scenario(device(), a_machine_a_rank(), fanouts, {30, 50, 0}), method));
      expect_reference(
          with_method(make_scenario(device(), uneven_machines(), fanouts, {30, 50, 10}), method));
    }
  }
}

// Each rank of a machine asks the same rank of the other for the same nodes, which then repeat there.
TEST_P(Exchange, AnswersSeveralRanksThatAskTheSame) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    Scenario scenario = with_method(make_scenario(device(), uneven_machines(), {5, -1, 3}, {40}), method);
    for (auto& seeds : scenario.seeds) seeds = scenario.seeds.front();
    expect_reference(scenario);
  }
}

TEST_P(Exchange, TakesWideIds) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {4, 4}, {30});
  scenario.wide = true;
  expect_reference(scenario);
}

TEST_P(Exchange, GivesTheSameBlocksWithAHaloCache) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {-1}, {3, -1}, {0, 2}}) {
    for (const bool wide : {false, true}) {
      Scenario scenario = make_scenario(device(), uneven_machines(), fanouts, {30, 50, 10});
      scenario.with_halo = true;
      scenario.wide = wide;
      expect_reference(scenario);
    }
  }
}

TEST_P(Exchange, AsksForNothingThatIsKept) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 4}, {20});
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  ExchangeReport without, with;
  scenario.sample(&without);
  scenario.with_halo = true;
  const auto blocks = scenario.sample(&with);
  const auto machine = at(test::world().rank());
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const auto& block = blocks[1 - hop];
    Count kept = 0;
    for (Count i = 0; i < block.num_dst; ++i) {
      const NodeId node = block.src_nodes[at(i)];
      const bool remote = node < scenario.offsets[machine] || node >= scenario.offsets[machine + 1];
      kept += remote && node % 3 == 1;
    }
    EXPECT_EQ(with.remote_nodes[hop], without.remote_nodes[hop]);
    EXPECT_EQ(with.cached_nodes[hop], kept);
    EXPECT_EQ(without.cached_nodes[hop], 0);
  }
  std::vector<std::int64_t> bytes{with.bytes_sent, without.bytes_sent};
  test::world().communicator().all_reduce(bytes);
  EXPECT_LT(bytes[0], bytes[1]);
}

// Each remote node of a frontier costs its id, a count, and its picks, and nothing else travels.
TEST_P(Exchange, SendsWhatTheDistinctRemoteNodesNeed) {
  const Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, -1}, {40});
  ExchangeReport report;
  const auto blocks = scenario.sample(&report);
  const auto machine = at(test::world().rank());
  std::vector<std::int64_t> sums;  // by hop: expected, sent
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const auto& block = blocks[1 - hop];
    std::set<NodeId> remote;
    Count picks = 0;
    for (std::size_t i = 0; i < at(block.num_dst); ++i) {
      const NodeId node = block.src_nodes[i];
      if (node >= scenario.offsets[machine] && node < scenario.offsets[machine + 1]) continue;
      if (remote.insert(node).second) picks += block.indptr[i + 1] - block.indptr[i];
    }
    constexpr Count kIdBytes = 4, kCountBytes = 4, kPickBytes = 4 + 8;
    sums.push_back(std::ssize(remote) * (kIdBytes + kCountBytes) + picks * kPickBytes);
    sums.push_back(report.hop_bytes[hop]);
  }
  test::world().communicator().all_reduce(sums);
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(sums[3], sums[2]);
}

TEST_P(Exchange, BearsDelays) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 4, 3}, {30, 50, 10});
  scenario.longest_delay = std::chrono::milliseconds(50);
  const auto& seeds = scenario.seeds[at(test::world().rank())];
  test::expect_equal(scenario.sample(nullptr, 10),
                     test::reference_blocks(scenario.graph.front(), seeds, scenario.options, kKey));
}

// Of the last machine's nodes none has a neighbor; with three machines the second has no edge either.
TEST_P(Exchange, TakesMachinesWithoutEdges) {
  Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 5}, {30});
  PlainGraph& graph = scenario.graph.front();
  const NodeId first_without = scenario.offsets[1];
  PlainGraph cut;
  cut.original_ids = graph.original_ids;
  cut.indptr.clear();
  for (NodeId v = 0; v <= graph.num_nodes(); ++v)
    cut.indptr.push_back(graph.indptr[at(std::min(v, first_without))]);
  cut.indices.assign(graph.indices.begin(), graph.indices.begin() + cut.indptr.back());
  cut.edge_ids.assign(graph.edge_ids.begin(), graph.edge_ids.begin() + cut.indptr.back());
  graph = cut;
  expect_reference(scenario);
}

TEST_P(Exchange, TakesRanksWithoutSeeds) {
  expect_reference(make_scenario(device(), a_machine_a_rank(), {5, 5}, {0, 40}));
  expect_reference(make_scenario(device(), a_machine_a_rank(), {5, 5}, {40, 0}));
  expect_reference(make_scenario(device(), a_machine_a_rank(), {5, 5}, {0}));
}

/// Ranks on GPUs that exchange from device to device.
class DirectExchange : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  static Scenario make(const std::vector<int>& machines, const std::vector<int>& fanouts,
                       const std::vector<Count>& seeds_of_ranks, Count cap) {
    const Device device{.kind = Device::Kind::cuda, .index = test::world().rank() % cuda::device_count()};
    Scenario scenario = make_scenario(device, machines, fanouts, seeds_of_ranks);
    scenario.caps.assign(fanouts.size(), cap);
    return scenario;
  }
  static constexpr Count kPlenty = 2000;
};

TEST_F(DirectExchange, GivesTheBlocksOfTheWholeGraph) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {3, 0, 2}, {40, 2}}) {
    for (const bool strided : {false, true}) {
      for (const auto& machines : {a_machine_a_rank(), uneven_machines()}) {
        Scenario scenario = make(machines, fanouts, {30, 50, 10}, kPlenty);
        scenario.options.strided = strided;
        expect_reference(scenario);
        scenario.options.edge_ids = false;
        scenario.wide = true;
        expect_reference(scenario);
      }
    }
  }
}

TEST_F(DirectExchange, GivesTheBlocksOfTheWholeGraphForEveryMethod) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    expect_reference(with_method(make(a_machine_a_rank(), {5, 4, 3}, {30, 50, 0}, kPlenty), method));
    expect_reference(with_method(make(uneven_machines(), {5, 4, 3}, {30, 50, 10}, kPlenty), method));
  }
}

TEST_F(DirectExchange, AnswersSeveralRanksThatAskTheSame) {
  Scenario scenario = make(uneven_machines(), {5, 4, 3}, {40}, kPlenty);
  for (auto& seeds : scenario.seeds) seeds = scenario.seeds.front();
  expect_reference(scenario);
}

// On one rank only, at any hop, or on all of them.
TEST_F(DirectExchange, SamplesAgainWhatDoesNotFit) {
  for (const std::vector<Count>& caps :
       {std::vector<Count>{2, 2000, 2000}, {2000, 3, 2000}, {2000, 2000, 60}, {0, 2000, 2000}, {0, 0, 0}}) {
    Scenario scenario = make(a_machine_a_rank(), {5, 4, 3}, {60, 4, 2}, kPlenty);
    scenario.caps = caps;
    scenario.options.strided = true;
    expect_reference(scenario);
  }
}

TEST_F(DirectExchange, MakesRoomForWhatDidNotFit) {
  Scenario scenario = make(a_machine_a_rank(), {5, 4, 3}, {60, 4, 2}, kPlenty);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  scenario.caps[0] = 2;
  ExchangeReport report;
  std::vector<bool> can_be_padded;
  scenario.sample(&report, 3, &can_be_padded);
  EXPECT_EQ(report.repeated_batches, 1);
  EXPECT_EQ(can_be_padded, (std::vector<bool>{false, true, true}));
}

TEST_F(DirectExchange, TakesRanksWithoutSeeds) {
  expect_reference(make(a_machine_a_rank(), {5, 5}, {0, 40}, kPlenty));
  expect_reference(make(a_machine_a_rank(), {5, 5}, {0}, kPlenty));
}

TEST_F(DirectExchange, ReportsWhatItDid) {
  const Scenario scenario = make(a_machine_a_rank(), {5, 4}, {20}, 100);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  Scenario through_host = scenario;
  through_host.caps.clear();
  ExchangeReport direct, staged;
  scenario.sample(&direct, 3);
  through_host.sample(&staged, 3);
  EXPECT_EQ(direct.frontier_nodes, staged.frontier_nodes);
  EXPECT_EQ(direct.remote_nodes, staged.remote_nodes);
  const Count others = scenario.topology.num_machines() - 1;
  constexpr Count kIdBytes = 4, kCountBytes = 4, kPickBytes = 4 + 8;
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const Count fanout = scenario.options.fanouts[hop];
    EXPECT_EQ(direct.hop_bytes[hop], 3 * others * 100 * (kIdBytes + kCountBytes + fanout * kPickBytes));
    EXPECT_EQ(direct.traffic[hop].request_bytes, 3 * others * 100 * kIdBytes);
    EXPECT_EQ(direct.traffic[hop].request_messages, 3 * others);
    EXPECT_EQ(direct.traffic[hop].rounds, 3 * 2);
  }
  EXPECT_EQ(direct.bytes_sent, direct.bytes_received);
}

TEST_F(DirectExchange, GivesTheSameBlocksWithAHaloCache) {
  for (const auto& fanouts : {std::vector<int>{5, 4, 3}, {3, 0, 2}, {40, 2}}) {
    for (const bool strided : {false, true}) {
      for (const auto& machines : {a_machine_a_rank(), uneven_machines()}) {
        Scenario scenario = make(machines, fanouts, {30, 50, 0}, kPlenty);
        scenario.with_halo = true;
        scenario.options.strided = strided;
        expect_reference(scenario);
        scenario.options.edge_ids = false;
        scenario.wide = true;
        expect_reference(scenario);
      }
    }
  }
}

TEST_F(DirectExchange, GivesTheSameBlocksWithAHaloCacheForEveryMethod) {
  for (const test::MethodCase& method : test::all_methods()) {
    SCOPED_TRACE(testing::PrintToString(method));
    Scenario scenario = with_method(make(uneven_machines(), {5, 4, 3}, {30, 50, 10}, kPlenty), method);
    scenario.with_halo = true;
    expect_reference(scenario);
  }
}

// A repeated batch passes through the host, where the halo is found by another index.
TEST_F(DirectExchange, SamplesAgainWhatDoesNotFitBesideAHaloCache) {
  for (const std::vector<Count>& caps : {std::vector<Count>{2, 2000, 2000}, {2000, 2000, 8}, {0, 0, 0}}) {
    Scenario scenario = make(a_machine_a_rank(), {5, 4, 3}, {60, 4, 2}, kPlenty);
    scenario.caps = caps;
    scenario.with_halo = true;
    scenario.options.strided = true;
    expect_reference(scenario);
  }
}

TEST_F(DirectExchange, AsksForNothingThatIsKept) {
  Scenario scenario = make(a_machine_a_rank(), {5, 4}, {20}, kPlenty);
  if (scenario.topology.num_machines() == 1) GTEST_SKIP() << "needs two machines";
  scenario.with_halo = true;
  Scenario through_host = scenario;
  through_host.caps.clear();
  ExchangeReport direct, staged;
  scenario.sample(&direct, 3);
  through_host.sample(&staged, 3);
  EXPECT_GT(direct.cached_nodes[1], 0);
  EXPECT_EQ(direct.cached_nodes, staged.cached_nodes);
  EXPECT_EQ(direct.remote_nodes, staged.remote_nodes);
  EXPECT_EQ(direct.frontier_nodes, staged.frontier_nodes);

  // Messages with room for what is asked for then suffice; without the cache they do not.
  for (Count& most : staged.largest_requests) most = comm::rounded_cap(most);
  test::world().communicator().all_reduce(staged.largest_requests, comm::Communicator::Op::max);
  scenario.caps = staged.largest_requests;
  ExchangeReport with, without;
  scenario.sample(&with, 2);
  EXPECT_EQ(with.repeated_batches, 0);
  scenario.with_halo = false;
  scenario.sample(&without, 2);
  EXPECT_GT(without.repeated_batches, 0);
}

/// Over all ranks, the edges that one rank samples from the whole graph in its own order of ids.
void expect_same_set(const PlainGraph& whole, const Scenario& scenario) {
  std::vector<NodeId> seeds;  // as original ids
  for (const auto& of_rank : scenario.seeds) {
    for (const NodeId seed : of_rank) seeds.push_back(scenario.graph.front().original_ids[at(seed)]);
  }
  const auto expected = test::sampled_edges(test::reference_blocks(whole, seeds, scenario.options, kKey));
  EXPECT_EQ(union_over_ranks(test::sampled_edges(scenario.sample())), expected);
}

// A hop asks for its new nodes, and which are new depends on the seeds of a rank, in batches of
// new_nodes_only.
TEST_P(Exchange, SamplesTheSameSetUnderEveryPartition) {
  const PlainGraph whole = test::random_graph({.num_nodes = 2000, .mean_degree = 6, .hub_degree = 5000});
  const std::vector<int> fanouts{5, 4, 3};
  for (const test::MethodCase& method : test::all_methods()) {
    if (method.new_nodes_only) continue;
    SCOPED_TRACE(testing::PrintToString(method));
    expect_same_set(whole, with_method(make_scenario(device(), a_machine_a_rank(), fanouts, {25}), method));
  }
}

TEST_P(Exchange, ReportsWhatItDid) {
  const Scenario scenario = make_scenario(device(), a_machine_a_rank(), {5, 4}, {20});
  ExchangeReport report;
  const auto blocks = scenario.sample(&report, 3);
  ASSERT_EQ(report.frontier_nodes.size(), 2u);
  const int num_machines = scenario.topology.num_machines();
  if (num_machines == 1) {
    EXPECT_EQ(report.bytes_sent + report.bytes_received, 0);
    return;
  }
  const auto machine = at(scenario.topology.ranks[at(test::world().rank())].machine);
  for (std::size_t hop = 0; hop < 2; ++hop) {
    const auto& block = blocks[1 - hop];
    Count remote = 0;
    for (Count i = 0; i < block.num_dst; ++i) {
      const NodeId node = block.src_nodes[at(i)];
      remote += node < scenario.offsets[machine] || node >= scenario.offsets[machine + 1];
    }
    EXPECT_EQ(report.frontier_nodes[hop], 3 * block.num_dst);
    EXPECT_EQ(report.remote_nodes[hop], 3 * remote);
    const HopTraffic& traffic = report.traffic[hop];
    EXPECT_EQ(traffic.request_bytes, 3 * remote * 4);
    EXPECT_EQ(traffic.request_bytes + traffic.answer_bytes, report.hop_bytes[hop]);
    EXPECT_LE(traffic.request_messages, 3 * (num_machines - 1));
    EXPECT_EQ(traffic.request_messages > 0, remote > 0);
  }
  EXPECT_EQ(report.repeated_batches, 0);
  std::vector<std::int64_t> bytes{report.bytes_sent, report.bytes_received};
  test::world().communicator().all_reduce(bytes);
  EXPECT_GT(bytes[0], 0);
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_GT(report.seconds, 0);
}

}  // namespace
}  // namespace strata::sampling
