// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "strata/comm/backend.hpp"
#include "strata/comm/launcher_rank.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

bool started_by_mpi() {
  constexpr std::array kRanks{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  if (std::ranges::any_of(kRanks, is_set)) return true;
  // srun without a PMI: MPI says what is missing, while ranks that do not know each other would all do the
  // same.
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks != nullptr && std::atoi(tasks) > 1;
}

/// Whether all of torch.distributed's variables are set; throws if only some are.
bool started_by_torch() {
  constexpr std::array kWanted{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  std::vector<const char*> missing;
  std::ranges::copy_if(kWanted, std::back_inserter(missing), [](const char* name) { return !is_set(name); });
  if (missing.empty()) return true;
  // Only these two say that there are ranks; the others may stay in a shell from earlier runs.
  if (!is_set("RANK") && !is_set("WORLD_SIZE")) return false;
  throw InputError(
      fmt::format("the environment has {}, but not {}", is_set("RANK") ? "RANK" : "WORLD_SIZE",
                  fmt::join(missing, ", ")),
      "torch.distributed's ranks need all of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: start with "
      "torchrun, or set them in each process. For one rank on its own, unset RANK and WORLD_SIZE.");
}

/// The first of the variables that is set; 0 if none is.
int first_number(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return 0;
}

}  // namespace

Launcher find_launcher() {
  if (is_set("TORCHELASTIC_RUN_ID") && started_by_torch()) return Launcher::torch;
  if (started_by_mpi()) return Launcher::mpi;
  return started_by_torch() ? Launcher::torch : Launcher::none;
}

int rank_of_launcher() {
  return first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"});
}

int ranks_of_launcher() { return first_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}); }

}  // namespace strata::comm
