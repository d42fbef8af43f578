#include "strata/comm/machine.hpp"

#include <fmt/format.h>

#include "mpi_state.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/util/error.hpp"
#include "topology.hpp"

namespace strata::comm {
namespace {

std::vector<std::string> visible_gpus(TopologyOptions::Compute compute) {
  std::vector<std::string> uuids;
  if (compute == TopologyOptions::Compute::cpu) return uuids;  // does not so much as start the driver
  for (int device = 0; device < cuda::device_count(); ++device) uuids.push_back(cuda::device_uuid(device));
  return uuids;
}

int leader_of_host(const Communicator& world) {
  Communicator host = Internals::split_shared(world);
  int leader = world.rank();
  host.broadcast(&leader, sizeof(leader), 0);
  host.close();
  return leader;
}

const Topology::Rank& own_rank(const Communicator& world, const Topology& topology) {
  if (topology.ranks.size() != static_cast<std::size_t>(world.size())) {
    throw CommError(fmt::format("a topology of {} ranks was given to a communicator of {}",
                                topology.ranks.size(), world.size()));
  }
  return topology.ranks[static_cast<std::size_t>(world.rank())];
}

}  // namespace

Topology discover(const Communicator& world, const TopologyOptions& options) {
  RankFacts own{.host = Internals::of(world).host,
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
      device_(own_rank(world, topology).device) {}

}  // namespace strata::comm
