// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/runtime.hpp"

#include "strata/comm/resources.hpp"

namespace strata::batches {

Runtime::Runtime(const comm::World& world, const comm::TopologyOptions& options)
    : world_(world),
      topology_(comm::discover(world.communicator(), options)),
      machine_(world.communicator(), topology_),
      cores_(comm::resources_of(machine_).cores),
      sample_pool_(cores_),
      gather_pool_(cores_),
      caller_pool_(cores_) {}

void Runtime::close() { machine_.close(); }

}  // namespace strata::batches
