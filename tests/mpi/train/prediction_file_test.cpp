#include "prediction_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>

#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
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

float value_at(Count row, Count col) { return static_cast<float>(row) + static_cast<float>(col) / 1024; }

/// The rows of this rank: runs of `run` rows that follow each other, in random order.
std::vector<Count> rows_of_rank(Count rows, Count run, std::uint32_t seed) {
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

struct Case {
  Count rows, cols, run;
};

void expect_written(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " x " << c.cols << ", runs of " << c.run);
  const SharedFolder folder;
  const std::string path = folder / "predictions.npy";
  PredictionFile file(path, c.rows, c.cols, test::world().communicator());
  std::vector<float> row(static_cast<std::size_t>(c.cols));
  for (const Count r : rows_of_rank(c.rows, c.run, 3)) {
    for (Count col = 0; col < c.cols; ++col) row[static_cast<std::size_t>(col)] = value_at(r, col);
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
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  folder.close();
}

TEST(PredictionFile, HoldsTheRowsOfAllRanks) {
  expect_written({.rows = 1000, .cols = 7, .run = 1});
  expect_written({.rows = 1000, .cols = 7, .run = 64});
  expect_written({.rows = 1, .cols = 1, .run = 1});
  expect_written({.rows = 2, .cols = 47, .run = 1});
  expect_written({.rows = 4000, .cols = 300, .run = 4000});  // more than is kept in memory
}

TEST(PredictionFile, LeavesNoFinalNameWhenItIsNotClosed) {
  const SharedFolder folder;
  const std::string path = folder / "predictions.npy";
  { const PredictionFile unfinished(path, 10, 2, test::world().communicator()); }
  EXPECT_FALSE(std::filesystem::exists(path));
  folder.close();
}

TEST(PredictionFile, NamesTheFileThatCannotBeCreated) {
  if (test::world().size() > 1) GTEST_SKIP() << "a rank that fails ends the run: the others would wait";
  try {
    const PredictionFile file("/nonexistent/predictions.npy", 10, 2, test::world().communicator());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/predictions.npy"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace strata::train
