// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "backends/mpi_plugin.hpp"
#include "strata/comm/backend.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

constexpr const char* kSrunRemedy =
    "Start the ranks with Open MPI's mpirun (`mpirun -n 1` for one), or with `srun --mpi=pmix` if both Slurm "
    "and Open MPI have PMIx.";

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

/// The number of ranks by a launcher's variable.
struct LauncherSize {
  const char* variable = nullptr;  ///< null if there is none
  int ranks = 0;
};

/// Reads the first of these variables that is set. Open MPI's comes first because its mpirun may run within
/// a step of srun or within another MPI's mpirun, and their variables stay set.
LauncherSize launcher_size() {
  constexpr std::array kSizes{"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE",
                              "SLURM_STEP_NUM_TASKS"};
  for (const char* name : kSizes)
    if (const char* text = std::getenv(name)) return {name, std::atoi(text)};
  // MPICH and Intel MPI set it; it counts only the ranks of this host, so that 1 means nothing.
  constexpr const char* kOfHost = "MPI_LOCALNRANKS";
  const char* text = std::getenv(kOfHost);
  const int ranks = text == nullptr ? 0 : std::atoi(text);
  return ranks > 1 ? LauncherSize{kOfHost, ranks} : LauncherSize{};
}

bool started_by_mpi() {
  if (is_set("OMPI_COMM_WORLD_RANK")) return true;
  // One rank needs no MPI, which fails in a step of srun (`srun --pty bash`) if it was built without Slurm's
  // PMI. Of several ranks MPI says what is missing, while each on its own would do all the work.
  if (const LauncherSize found = launcher_size(); found.variable != nullptr) return found.ranks > 1;
  constexpr std::array kRanks{"PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"};
  return std::ranges::any_of(kRanks, is_set);
}

/// The variables of torch.distributed that are not set.
std::vector<const char*> missing_of_torch() {
  constexpr std::array kWanted{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  std::vector<const char*> missing;
  std::ranges::copy_if(kWanted, std::back_inserter(missing), [](const char* name) { return !is_set(name); });
  return missing;
}

/// Whether all of torch.distributed's variables are set; throws if only some are.
bool started_by_torch() {
  const std::vector<const char*> missing = missing_of_torch();
  if (missing.empty()) return true;
  // Only these two mean that there are ranks; the others may stay in a shell from earlier runs.
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
  return first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID",
                       "MPI_LOCALRANKID", "RANK"});
}

std::vector<Mpi> mpi_of_launcher() {
  if (const char* chosen = std::getenv("STRATA_MPI")) {
    const std::string_view name = chosen;
    if (name != "openmpi" && name != "mpich")
      throw InputError(fmt::format("STRATA_MPI={} names no MPI", name),
                       "Write openmpi or mpich, or unset it.");
    return {name == "mpich" ? Mpi::mpich : Mpi::open_mpi};
  }
  if (is_set("OMPI_COMM_WORLD_SIZE")) return {Mpi::open_mpi};
  const bool by_hydra = is_set("PMI_SIZE") && !is_set("SLURM_STEP_NUM_TASKS");
  if (by_hydra || is_set("MV2_COMM_WORLD_SIZE") || is_set("MPI_LOCALNRANKS")) return {Mpi::mpich};
  return {Mpi::open_mpi, Mpi::mpich};
}

std::string size_by_launcher() {
  const LauncherSize found = launcher_size();
  return found.variable == nullptr ? "" : fmt::format("{}={}", found.variable, found.ranks);
}

int ranks_of_launcher() { return launcher_size().ranks; }

void refuse_lone_rank(int ranks_of_mpi, const char* library) {
  const LauncherSize found = launcher_size();
  if (ranks_of_mpi > 1 || found.ranks < 2) return;
  const std::string_view variable = found.variable;
  const bool by_srun = variable == "SLURM_STEP_NUM_TASKS";
  throw InputError(
      fmt::format("{} started {} ranks ({}={}), but {} sees only one: each of them would do all the work",
                  by_srun ? "srun" : "the mpirun of another MPI", found.ranks, variable, found.ranks,
                  library),
      by_srun
          ? kSrunRemedy
          : fmt::format(
                "Start the ranks with {}'s mpirun (`mpirun --version` says whose it is), or set STRATA_MPI "
                "to the other family, openmpi or mpich. For one rank on its own, unset the variable.",
                library));
}

std::string words_on_failed_start() {
  const LauncherSize found = launcher_size();
  const bool by_srun = !is_set("OMPI_COMM_WORLD_RANK") && is_set("SLURM_STEPID") && found.variable != nullptr;
  if (!by_srun || rank_of_launcher() > 0) return {};
  return fmt::format(
      "strata: srun started the ranks ({}={}), and Open MPI cannot use what it offers.\n  {}\n",
      found.variable, found.ranks, kSrunRemedy);
}

std::shared_ptr<Backend> backend_of_program(int* argc, char*** argv) {
  const bool by_torchrun = is_set("TORCHELASTIC_RUN_ID");
  if (!by_torchrun && started_by_mpi()) return mpi_backend(argc, argv);
  if (const int ranks = first_number({"WORLD_SIZE"}); ranks > 1 && missing_of_torch().empty()) {
    throw InputError(
        fmt::format(
            "{} says that there are {} ranks (WORLD_SIZE={}), but this program's ranks meet over MPI: "
            "each of them would do all the work",
            by_torchrun ? "torchrun" : "the environment", ranks, ranks),
        "Start it with mpirun, or unset WORLD_SIZE for one rank on its own.");
  }
  return solo_backend();
}

}  // namespace strata::comm
