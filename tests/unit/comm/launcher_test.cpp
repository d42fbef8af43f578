// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "strata/comm/backend.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::vector<std::pair<const char*, const char*>>;

/// Leaves these variables in the environment, and no others that matter.
void set_environment(const Variables& variables) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                           "PMI_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS",
                           "MPI_LOCALRANKID", "SLURM_STEP_NUM_TASKS", "SLURM_STEPID", "SLURM_PROCID", "RANK",
                           "WORLD_SIZE", "STRATA_MPI", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"})
    unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name, value, 1);
}

Launcher launcher_with(const Variables& variables) {
  set_environment(variables);
  return find_launcher();
}

/// What is said where MPI has found so many ranks; empty: nothing.
std::string refusal_with(const Variables& variables, int ranks_of_mpi = 1) {
  set_environment(variables);
  try {
    refuse_lone_rank(ranks_of_mpi, "Open MPI");
  } catch (const InputError& error) {
    return error.what() + std::string("\n") + error.remedy();
  }
  return {};
}

const Variables kTorch{
    {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};

Variables torch_and(const char* name, const char* value) {
  Variables all = kTorch;
  all.emplace_back(name, value);
  return all;
}

TEST(FindLauncher, FindsNoneInAPlainShell) {
  EXPECT_EQ(launcher_with({}), Launcher::none);
  EXPECT_EQ(launcher_with({{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}}), Launcher::none);
  EXPECT_EQ(launcher_with({{"SLURM_STEP_NUM_TASKS", "1"}}), Launcher::none);
}

TEST(FindLauncher, FindsEveryMpi) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    EXPECT_EQ(launcher_with({{name, "0"}}), Launcher::mpi) << name;
  EXPECT_EQ(launcher_with({{"SLURM_STEP_NUM_TASKS", "4"}}), Launcher::mpi);
}

TEST(FindLauncher, NeedsNoMpiForOneRankOfAStep) {
  EXPECT_EQ(launcher_with({{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}}), Launcher::none);
  EXPECT_EQ(launcher_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), Launcher::none);
  EXPECT_EQ(launcher_with({{"SLURM_STEP_NUM_TASKS", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}), Launcher::mpi);
}

TEST(FindLauncher, TakesTheInnermostOfTwoLaunchers) {
  const Variables within{{"SLURM_STEP_NUM_TASKS", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "3"}};
  EXPECT_EQ(launcher_with(within), Launcher::mpi);
  EXPECT_THAT(refusal_with(within), HasSubstr("PMI_SIZE=3"));
  Variables open_mpi = within;
  open_mpi.insert(open_mpi.end(), {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(refusal_with(open_mpi), "");
}

TEST(RefuseLoneRank, NamesWhatAnotherMpiSays) {
  for (const char* size : {"PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"}) {
    const std::string told = refusal_with({{size, "3"}});
    EXPECT_THAT(told, HasSubstr("the mpirun of another MPI started 3 ranks (" + std::string(size) + "=3)"));
    EXPECT_THAT(told, HasSubstr("Open MPI's mpirun"));
    EXPECT_EQ(refusal_with({{size, "3"}}, 3), "") << "MPI knows the ranks";
    EXPECT_EQ(refusal_with({{size, "1"}}), "");
  }
  EXPECT_THAT(refusal_with({{"SLURM_STEP_NUM_TASKS", "4"}}),
              AllOf(HasSubstr("srun started 4 ranks"), HasSubstr("--mpi=pmix")));
  EXPECT_EQ(refusal_with({}), "");
}

TEST(MpiOfLauncher, IsThatOfTheInnermostMpirun) {
  const auto families_with = [](const Variables& variables) {
    set_environment(variables);
    return mpi_of_launcher();
  };
  using testing::ElementsAre;
  EXPECT_THAT(families_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_SIZE", "2"}}), ElementsAre(Mpi::open_mpi));
  for (const char* size : {"PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"})
    EXPECT_THAT(families_with({{size, "2"}}), ElementsAre(Mpi::mpich)) << size;
  EXPECT_THAT(families_with({}), ElementsAre(Mpi::open_mpi, Mpi::mpich));
  EXPECT_THAT(families_with({{"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "2"}}),
              ElementsAre(Mpi::open_mpi, Mpi::mpich));
  EXPECT_THAT(families_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"STRATA_MPI", "mpich"}}),
              ElementsAre(Mpi::mpich));
  set_environment({{"STRATA_MPI", "lam"}});
  test::expect_error<InputError>([] { mpi_of_launcher(); }, {"STRATA_MPI=lam", "openmpi or mpich"});
  set_environment({});
}

TEST(WordsOnFailedStart, AreThoseOfTheFirstRankOfSrun) {
  const Variables step{{"SLURM_STEPID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}};
  set_environment(step);
  EXPECT_THAT(words_on_failed_start(), AllOf(HasSubstr("SLURM_STEP_NUM_TASKS=4"), HasSubstr("mpirun")));
  setenv("SLURM_PROCID", "1", 1);
  EXPECT_EQ(words_on_failed_start(), "");
  set_environment({});
  EXPECT_EQ(words_on_failed_start(), "");
}

TEST(BackendOfProgram, IsOneRankOnItsOwnWithoutALauncher) {
  set_environment({{"SLURM_STEP_NUM_TASKS", "1"}, {"RANK", "0"}});
  EXPECT_STREQ(backend_of_program(nullptr, nullptr)->name(), "solo");
}

TEST(BackendOfProgram, RefusesRanksOfTorchrun) {
  for (const bool elastic : {false, true}) {
    Variables variables = kTorch;
    if (elastic) variables.emplace_back("TORCHELASTIC_RUN_ID", "none");
    set_environment(variables);
    test::expect_error<InputError>([] { backend_of_program(nullptr, nullptr); }, {"WORLD_SIZE=2", "mpirun"});
  }
}

TEST(FindLauncher, FindsTorchRanks) { EXPECT_EQ(launcher_with(kTorch), Launcher::torch); }

TEST(FindLauncher, TakesMpiIfAScriptUnderMpirunSetsTorchsVariables) {
  EXPECT_EQ(launcher_with(torch_and("OMPI_COMM_WORLD_RANK", "0")), Launcher::mpi);
}

TEST(FindLauncher, TakesTorchrunIfMpirunStartedTorchrun) {
  Variables all = torch_and("OMPI_COMM_WORLD_RANK", "0");
  all.emplace_back("TORCHELASTIC_RUN_ID", "none");
  EXPECT_EQ(launcher_with(all), Launcher::torch);
}

TEST(FindLauncher, RefusesHalfOfTorchsVariables) {
  try {
    launcher_with({{"RANK", "1"}, {"MASTER_ADDR", "localhost"}});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has RANK, but not WORLD_SIZE, MASTER_PORT"));
    EXPECT_THAT(error.remedy(), HasSubstr("torchrun"));
  }
}

}  // namespace
}  // namespace strata::comm
