// SPDX-License-Identifier: Apache-2.0
#include "loader/solo.hpp"

#include "strata/comm/backend.hpp"

namespace strata::batches {
namespace {

comm::Topology topology_of(const Runtime& runtime) {
  const auto rank = static_cast<std::size_t>(runtime.communicator().rank());
  comm::Topology topology{.ranks = {runtime.topology().ranks[rank]}, .machines = {{0}}};
  topology.ranks[0].machine = topology.ranks[0].local_rank = topology.ranks[0].host_rank = 0;
  return topology;
}

}  // namespace

Solo::Solo(const Runtime& runtime)
    : world_(
          comm::solo_backend({.world_rank = runtime.communicator().rank(), .host = runtime.world().host()})),
      topology_(topology_of(runtime)),
      machine_(world_.communicator(), topology_) {}

}  // namespace strata::batches
