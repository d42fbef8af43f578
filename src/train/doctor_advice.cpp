// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>

#include "strata/train/config.hpp"

namespace strata::train {
namespace {

/// "mpirun -n 4 ", "srun --mpi=pmix -n 4 ", or nothing for one process on its own.
std::string launcher(int ranks) {
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) {
    if (std::getenv("SLURM_STEP_NUM_TASKS") != nullptr) return fmt::format("srun --mpi=pmix -n {} ", ranks);
    if (ranks == 1) return {};
  }
  return fmt::format("mpirun -n {} ", ranks);
}

}  // namespace

std::string doctor_advice(int ranks, const graph::Source& graph) {
  const bool is_folder =
      !graph.empty() && !graph.is_generated() && !graph.is_in_memory() && graph.dataset() == nullptr;
  const std::string folder = is_folder ? " --graph " + graph.text() : "";
  return fmt::format("strata-doctor may find more: {}strata-doctor{}", launcher(ranks), folder);
}

}  // namespace strata::train
