// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "strata/comm/backend.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

using testing::HasSubstr;
using Variables = std::vector<std::pair<const char*, const char*>>;

/// What the environment with these variables, and no others that matter, tells.
Launcher launcher_with(const Variables& variables) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_STEP_NUM_TASKS", "RANK",
                           "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"})
    unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  return find_launcher();
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
