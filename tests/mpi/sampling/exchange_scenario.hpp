// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/methods.hpp"
#include "support/mpi_world.hpp"
#include "support/reference_sampler.hpp"
#include "support/topologies.hpp"

/// Batches that several machines sample together, and what they must be.
namespace strata::sampling {

using test::PlainGraph;
using test::ViewOwner;

/// Where the ranks sample; they share the first GPU.
class OnADevice : public testing::TestWithParam<Device::Kind> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  static Device device() { return {.kind = GetParam(), .index = 0}; }
};

inline const BatchKey kKey{.seed = 5, .epoch = 1, .step = 17};

inline std::vector<int> a_machine_a_rank() {
  std::vector<int> machines(at(test::world().size()));
  std::iota(machines.begin(), machines.end(), 0);
  return machines;
}

inline std::vector<int> uneven_machines() { return test::uneven_machines(test::world().size()); }

/// Contiguous ranges of uneven sizes; with three machines the second owns few nodes.
inline std::vector<NodeId> cut(Count num_nodes, int num_machines) {
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
        if (!graph.relations.empty()) add_to_sublists(graph.relations[at(e)]);
      }
      first_sublists_.push_back(std::ssize(relations_));
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
    if (!graph.relations.empty()) lists_.view.sublists = sublists(graph.num_relations);
  }
  const store::HaloLists& lists() const { return lists_; }

 private:
  /// The relation of the last entry, which belongs to the node that `indptr_` has no end of yet.
  void add_to_sublists(RelationId relation) {
    if (std::ssize(relations_) > first_sublists_.back() && relations_.back() == relation) return;
    begins_.push_back(std::ssize(wide_) - 1);
    relations_.push_back(relation);
    sublist_nodes_.push_back(static_cast<std::int32_t>(std::ssize(nodes_) - 1));
  }
  store::SublistsView sublists(int num_relations) {
    Count most = 0;
    for (std::size_t list = 0; list + 1 < first_sublists_.size(); ++list)
      most = std::max(most, first_sublists_[list + 1] - first_sublists_[list]);
    begins_.push_back(std::ssize(wide_));
    return {.count = std::ssize(relations_),
            .most_per_node = most,
            .num_relations = num_relations,
            .first = first_sublists_.data(),
            .begins = begins_.data(),
            .nodes = sublist_nodes_.data(),
            .relations = relations_.data()};
  }

  std::vector<NodeId> nodes_, wide_, original_ids_;
  std::vector<std::int32_t> narrow_;
  std::vector<EdgeId> edge_ids_;
  std::vector<float> weights_;
  std::vector<Count> indptr_, first_sublists_{0}, begins_;
  std::vector<std::int32_t> sublist_nodes_;
  std::vector<RelationId> relations_;
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
  std::vector<Count> pick_caps = {};           ///< of their answers, over several relations
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
      shape.answers = pick_caps;
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

/// All ranks make the same one; the seeds lie anywhere, owned or not.
inline Scenario make_scenario(Device device, const std::vector<int>& machines,
                              const std::vector<int>& fanouts, const std::vector<Count>& seeds_of_ranks) {
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
inline void expect_reference(const Scenario& scenario) {
  const auto& seeds = scenario.seeds[at(test::world().rank())];
  const int repetitions = scenario.caps.empty() ? 1 : 3;  // the second one is recorded, the third replays it
  test::expect_equal(scenario.sample(nullptr, repetitions),
                     test::reference_blocks(scenario.graph.front(), seeds, scenario.options, kKey));
}

/// The same scenario with neighbors chosen otherwise.
inline Scenario with_method(Scenario scenario, const test::MethodCase& method) {
  const SamplerOptions options = method.options({}, 0);
  scenario.options.method = options.method;
  scenario.options.replace = options.replace;
  scenario.options.layer_dependent = options.layer_dependent;
  scenario.options.new_nodes_only = options.new_nodes_only;
  return scenario;
}

/// Ranks on GPUs that exchange from device to device.
class FromDeviceToDevice : public testing::Test {
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

}  // namespace strata::sampling
