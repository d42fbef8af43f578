// SPDX-License-Identifier: Apache-2.0
#include "loader/solo.hpp"
#include "strata/batches/graph.hpp"
#include "strata/comm/backend.hpp"
#include "strata/comm/machine.hpp"

namespace strata::batches {
namespace {

comm::Topology topology_of_one(const Runtime& runtime) {
  const auto rank = at(runtime.communicator().rank());
  comm::Topology topology{.ranks = {runtime.topology().ranks[rank]}, .machines = {{0}}};
  topology.ranks[0].machine = topology.ranks[0].local_rank = topology.ranks[0].host_rank = 0;
  return topology;
}

}  // namespace

Runtime::Runtime(const comm::World& world, const comm::TopologyOptions& options)
    : world_(world),
      topology_(comm::discover(world.communicator(), options)),
      machine_(world.communicator(), topology_),
      cores_(comm::resources_of(machine_).cores),
      sample_pool_(cores_),
      gather_pool_(cores_),
      caller_pool_(cores_) {}

void Runtime::close() { machine_.close(); }

Solo::Solo(const Runtime& runtime)
    : world_(
          comm::solo_backend({.world_rank = runtime.communicator().rank(), .host = runtime.world().host()})),
      topology_(topology_of_one(runtime)),
      machine_(world_.communicator(), topology_) {}

}  // namespace strata::batches
