// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unistd.h>

#include <filesystem>
#include <string>

#include "strata/comm/machine.hpp"
#include "support/mpi_world.hpp"

namespace strata::test {

/// The machines of a test on several ranks. An owner of the Machine's communicator.
struct RunSetup {
  comm::Topology topology;
  comm::Machine machine;

  explicit RunSetup(int ranks_per_machine,
                    comm::TopologyOptions::Compute compute = comm::TopologyOptions::Compute::cpu)
      : RunSetup(comm::discover(world().communicator(),
                                {.ranks_per_machine = ranks_per_machine, .compute = compute})) {}
  explicit RunSetup(const comm::Topology& given)
      : topology(given), machine(world().communicator(), topology) {}

  comm::Ranks ranks() const { return {&world().communicator(), &topology, &machine}; }
};

/// A folder name that all ranks agree on and no other run uses.
inline std::filesystem::path common_folder(const std::string& name) {
  const std::string unique = world().communicator().all_gather(std::to_string(::getpid())).front();
  return std::filesystem::temp_directory_path() / ("strata_" + name + "_" + unique);
}

}  // namespace strata::test
