// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "state.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "topology/rank_limits.hpp"
#include "topology/topology.hpp"

namespace strata::comm {
namespace {

std::vector<std::string> visible_gpus(TopologyOptions::Compute compute) {
  std::vector<std::string> uuids;
  if (compute == TopologyOptions::Compute::cpu) return uuids;  // does not even start the driver
  for (int device = 0; device < cuda::device_count(); ++device) uuids.push_back(cuda::device_uuid(device));
  return uuids;
}

int leader_of_host(const Communicator& world) {
  Communicator host = Internals::split_by_host(world);
  int leader = world.rank();
  host.broadcast(&leader, sizeof(leader), 0);
  host.close();
  return leader;
}

const Topology::Rank& own_rank(const Communicator& world, const Topology& topology) {
  if (topology.ranks.size() != at(world.size())) {
    throw CommError(fmt::format("a topology of {} ranks was given to a communicator of {}",
                                topology.ranks.size(), world.size()));
  }
  return topology.ranks[at(world.rank())];
}

/// Collective over `world`.
MachineResources find(const Communicator& world, const Topology& topology) {
  RankLimits own;
  world.together([&] { own = RankLimits::of_process(); });
  std::vector<RankLimits> limits;
  for (const std::string& blob : world.all_gather(serialize(own))) limits.push_back(parse_limits(blob));
  const Topology::Rank& rank = own_rank(world, topology);
  const bool on_gpus = std::ranges::all_of(topology.ranks, [&](const Topology::Rank& other) {
    return other.machine != rank.machine || other.device.is_cuda();
  });
  return {.own = divide(limits, topology)[at(world.rank())], .on_gpus = on_gpus};
}

const MachineResources& found_for(const Machine& machine) {
  return *Internals::of(machine.communicator()).resources;
}

}  // namespace

Topology discover(const Communicator& world, const TopologyOptions& options) {
  RankFacts own{.host = Internals::of(world).backend->self().host,
                .host_leader = leader_of_host(world),
                .gpus = {},
                .options = options};
  world.together([&] { own.gpus = visible_gpus(options.compute); });
  std::vector<RankFacts> facts;
  for (const std::string& blob : world.all_gather(serialize(own))) facts.push_back(parse_facts(blob));
  return arrange(facts);
}

Machine::Machine(const Communicator& world, const Topology& topology)
    : communicator_(world.split(own_rank(world, topology).machine, own_rank(world, topology).local_rank)),
      index_(own_rank(world, topology).machine),
      device_(own_rank(world, topology).device) {
  Internals::state(communicator_).resources = std::make_shared<const MachineResources>(find(world, topology));
}

const Resources& resources_of(const Machine& machine) { return found_for(machine).own; }

bool computes_on_gpus(const Machine& machine) { return found_for(machine).on_gpus; }

FreeHostMemory free_host_memory(const Machine& machine) {
  const Resources::FreeMemory own = resources_of(machine).free_memory();
  std::array<std::int64_t, 2> least{own.share_bytes, own.most_bytes};
  machine.communicator().all_reduce(std::span<std::int64_t>(least), Communicator::Op::min);
  return {.share_bytes = least[0] * machine.size(), .most_bytes = least[1] * machine.size()};
}

std::int64_t free_gpu_bytes_per_rank(const Machine& machine) {
  if (!computes_on_gpus(machine)) return 0;
  std::int64_t least =
      cuda::device_memory(machine.device().index).free_bytes / resources_of(machine).gpu_sharers();
  machine.communicator().all_reduce(std::span(&least, 1), Communicator::Op::min);
  return least;
}

}  // namespace strata::comm
