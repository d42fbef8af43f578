// SPDX-License-Identifier: Apache-2.0
#include "evaluation/prediction_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "support/mpi_world.hpp"
#include "support/temporary_folder.hpp"

namespace strata::train {
namespace {

/// A folder that all ranks see, removed once all are done with it.
class SharedFolder {
 public:
  SharedFolder() {
    if (test::world().rank() == 0) own_.emplace();
    path_ = test::world().communicator().all_gather(own_ ? own_->path().string() : "").front();
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void close() const { test::world().communicator().barrier(); }  ///< collective

 private:
  std::optional<test::TemporaryFolder> own_;
  std::string path_;
};

/// Where the first rank's process writes what is to become `path`. Collective.
std::string temporary_of(const std::string& path) {
  return path + ".tmp" + test::world().communicator().all_gather(std::to_string(::getpid())).front();
}

float value_at(Count row, Count col) { return static_cast<float>(row) + static_cast<float>(col) / 1024; }

/// The rows of this rank: runs of `run` rows that follow each other, in random order.
std::vector<Count> rows_in_runs(Count rows, Count run, std::uint32_t seed) {
  std::vector<Count> firsts;
  for (Count first = 0; first < rows; first += run) {
    if ((first / run) % test::world().size() == test::world().rank()) firsts.push_back(first);
  }
  std::mt19937 random(seed);
  std::shuffle(firsts.begin(), firsts.end(), random);
  std::vector<Count> all;
  for (const Count first : firsts) {
    for (Count row = first; row < std::min(first + run, rows); ++row) all.push_back(row);
  }
  return all;
}

struct WrittenCase {
  Count rows, cols, run;
};

void expect_written(const WrittenCase& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " x " << c.cols << ", runs of " << c.run);
  const SharedFolder folder;
  const std::string path = folder / "predictions.npy";
  PredictionFile file(path, c.rows, c.cols, test::world().communicator());
  std::vector<float> row(at(c.cols));
  for (const Count r : rows_in_runs(c.rows, c.run, 3)) {
    for (Count col = 0; col < c.cols; ++col) row[at(col)] = value_at(r, col);
    file.write_row(r, row.data());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  test::world().communicator().barrier();  // the others have looked
  file.close();

  const graph::NpyArray array = graph::read_npy(path);
  EXPECT_TRUE(array.is('f', 4));
  EXPECT_FALSE(array.fortran_order);
  EXPECT_EQ(array.shape, (std::vector<Count>{c.rows, c.cols}));
  Count wrong = 0;
  for (Count i = 0; i < array.size(); ++i) {
    float value = 0;
    std::memcpy(&value, array.data + i * static_cast<Count>(sizeof value), sizeof value);
    wrong += value != value_at(i / c.cols, i % c.cols);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(std::filesystem::exists(temporary_of(path)));
  folder.close();
}

TEST(PredictionFile, HoldsTheRowsOfAllRanks) {
  expect_written({.rows = 1000, .cols = 7, .run = 1});
  expect_written({.rows = 1000, .cols = 7, .run = 64});
  expect_written({.rows = 1, .cols = 1, .run = 1});
  expect_written({.rows = 2, .cols = 47, .run = 1});
  expect_written({.rows = 4000, .cols = 300, .run = 4000});  // more than is kept in memory
}

TEST(PredictionFile, LeavesNothingWhenItIsNotClosed) {
  const SharedFolder folder;
  const std::string path = folder / "predictions.npy";
  { const PredictionFile unfinished(path, 10, 2, test::world().communicator()); }
  test::world().communicator().barrier();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(temporary_of(path)));
  folder.close();
}

/// That of the first rank; elsewhere it may be an echo of another type.
void expect_refused(const std::string& path, Count rows, const std::string& part) {
  try {
    const PredictionFile file(path, rows, 2, test::world().communicator());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty() && part.find("--output") == 0) << error.what();
  }
}

TEST(PredictionFile, NamesTheFileThatCannotBeCreatedOnAllRanks) {
  expect_refused("/nonexistent/predictions.npy", 10, "/nonexistent/predictions.npy");
}

TEST(PredictionFile, ReplacesWhatAKilledRunLeftFollowsNoLinkAndLeavesOthersFiles) {
  const SharedFolder folder;
  const std::string path = folder / "predictions.npy";
  if (test::world().rank() == 0) {
    std::ofstream(folder / "precious") << "precious";
    std::filesystem::create_symlink(folder / "precious", path + ".tmp" + std::to_string(::getpid()));
    std::ofstream(path + ".tmp4000000") << "of a run that was killed";
    std::ofstream(path + ".tmp") << "the user's";
  }
  test::world().communicator().barrier();
  PredictionFile file(path, 10, 2, test::world().communicator());
  file.close();
  EXPECT_EQ(read_file(folder / "precious"), "precious");
  EXPECT_EQ(read_file(path + ".tmp"), "the user's");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp4000000"));
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  test::world().communicator().barrier();
  folder.close();
}

TEST(PredictionFile, ReservesItsRoomWhenItIsMade) {
  const SharedFolder folder;
  const std::string path = folder / "predictions.npy";
  constexpr Count kRows = 100000;
  const PredictionFile file(path, kRows, 2, test::world().communicator());
  struct stat info {};
  ASSERT_EQ(::stat(temporary_of(path).c_str(), &info), 0);
  constexpr Count kBlock = 512;
  EXPECT_GE(info.st_blocks * kBlock, kRows * 2 * static_cast<Count>(sizeof(float)));
  test::world().communicator().barrier();
  expect_refused(folder / "huge.npy", Count{1} << 55, "--output: no room for");
  test::world().communicator().barrier();
  EXPECT_FALSE(std::filesystem::exists(temporary_of(folder / "huge.npy")));
  test::world().communicator().barrier();
  folder.close();
}

TEST(PredictionFile, IsRefusedWhereTheRanksSeeDifferentFiles) {
  const comm::Communicator& world = test::world().communicator();
  if (world.size() == 1) GTEST_SKIP() << "needs two ranks";
  const SharedFolder folder;
  // A rank sees another file of the name, or none: as on a disk of its own.
  const std::string own = folder / ("host" + std::to_string(world.rank()));
  for (const bool present : {false, true}) {
    std::filesystem::create_directories(own);
    const std::string temporary = temporary_of(own + "/all.npy");
    if (present && world.rank() > 0) std::ofstream(temporary) << std::string(1000, 'x');
    world.barrier();
    expect_refused(own + "/all.npy", 10, "is not the file that the first rank made");
    world.barrier();
  }
  EXPECT_FALSE(std::filesystem::exists(temporary_of(folder / "host0/all.npy")));
  world.barrier();
  folder.close();
}

}  // namespace
}  // namespace strata::train
