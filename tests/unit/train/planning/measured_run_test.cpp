// SPDX-License-Identifier: Apache-2.0
#include "planning/measured_run.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::train {
namespace {

constexpr const char* kRun =
    R"({"type":"run","machines":1,"ranks":2,"hidden":64,"model":"sage","fanouts":[5,3],"batches_in_flight":1})";
constexpr const char* kEpoch =
    R"({"type":"epoch","steps":10,"seeds":400,"seconds":2,"sample_seconds":0.5,"gather_seconds":0.1,"compute_seconds":1})";
constexpr const char* kFaster =
    R"({"type":"epoch","steps":10,"seeds":400,"seconds":1,"sample_seconds":0.3,"gather_seconds":0.1,"compute_seconds":0.5})";

class Measured : public testing::Test {
 protected:
  void write(const std::vector<std::string>& lines) {
    std::ofstream file(folder_ / "metrics.jsonl");
    for (const std::string& line : lines) file << line << "\n";
  }
  void refuses(const std::string& what) {
    test::expect_error<InputError>([&] { read_measured_run(folder_.path()); }, {"--cluster measured=", what});
  }
  test::TemporaryFolder folder_;
};

TEST_F(Measured, GivesSecondsOfAStepFromTheFastestEpoch) {
  write({kRun, kEpoch, kFaster, kEpoch, R"({"type":"epo)"});
  const MeasuredRun run = read_measured_run(folder_.path());
  EXPECT_DOUBLE_EQ(run.sample_seconds, 0.03);
  EXPECT_DOUBLE_EQ(run.gather_seconds, 0.01);
  EXPECT_DOUBLE_EQ(run.compute_seconds, 0.05);
  EXPECT_DOUBLE_EQ(run.seeds_per_rank, 20);
  EXPECT_EQ(run.fanouts, "[5,3]");
  EXPECT_TRUE(run.one_by_one);
}

TEST_F(Measured, LooksAtTheLastRunOfTheFile) {
  std::string later = kRun;
  later.replace(later.find("\"hidden\":64"), 11, "\"hidden\":32");
  write({kRun, kFaster, later, kEpoch});
  const MeasuredRun run = read_measured_run(folder_.path());
  EXPECT_EQ(run.hidden, 32);
  EXPECT_DOUBLE_EQ(run.compute_seconds, 0.1);
}

TEST_F(Measured, RefusesWhatTellsNoTimes) {
  refuses("there is no metrics.jsonl");
  write({kRun});
  refuses("no epoch");
  std::string spread = kRun;
  spread.replace(spread.find("\"machines\":1"), 12, "\"machines\":2");
  write({spread, kEpoch});
  refuses("several machines");
  write({kRun, R"({"type":"epoch","steps":10,"seeds":400,"seconds":2})"});
  refuses("lacks a field");
  write({"no json", "[1, 2]"});
  refuses("no epoch");
}

}  // namespace
}  // namespace strata::train
