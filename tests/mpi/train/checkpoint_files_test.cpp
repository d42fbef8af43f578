// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_files.hpp"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "strata/util/error.hpp"
#include "support/mpi_world.hpp"
#include "support/temporary_folder.hpp"
#include "support/training_run.hpp"

namespace strata::train {
namespace {

/// Every rank has a disk of its own.
class CheckpointOfTheFirstRank : public testing::Test {
 protected:
  const comm::Communicator& world() const { return test::world().communicator(); }

  test::TemporaryFolder folder_;
  CheckpointFiles files_{folder_.path()};
};

TEST_F(CheckpointOfTheFirstRank, IsThatOfAllRanks) {
  test::TrainingRun saved(1), run(2);
  saved.progress.epoch = 3;
  saved.progress.step_in_epoch = 5;
  test::TrainingRun stale(3);  // what an earlier run left on the other disks
  files_.save(world().rank() == 0 ? saved.parts() : stale.parts());
  files_.load(run.parts(), world());
  EXPECT_EQ(run.progress.epoch, 3u);
  EXPECT_EQ(run.progress.step_in_epoch, 5);
  EXPECT_TRUE(at::equal(run.parameters.values(), saved.parameters.values()));
}

TEST_F(CheckpointOfTheFirstRank, MayBeTheOnlyOne) {
  test::TrainingRun saved(1), run(2);
  saved.progress.step_in_epoch = 5;
  if (world().rank() == 0) files_.save(saved.parts());
  files_.load(run.parts(), world());
  EXPECT_EQ(run.progress.step_in_epoch, 5);
}

TEST_F(CheckpointOfTheFirstRank, IsRefusedByAllRanksOrNone) {
  test::TrainingRun run(1);
  EXPECT_THROW(files_.load(run.parts(), world()), InputError) << "the first rank has none";
  if (world().rank() == 0) files_.save(run.parts());
  if (world().rank() == world().size() - 1) run.signature = R"({"hidden":4})";  // its graph is another one
  EXPECT_THROW(files_.load(run.parts(), world()), InputError);
}

}  // namespace
}  // namespace strata::train
