// SPDX-License-Identifier: Apache-2.0
#include "report/metrics_log.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "support/temporary_folder.hpp"

namespace strata::train {
namespace {

/// The lines of a file, without the times at which they were written.
nlohmann::json records_of(const std::filesystem::path& path) {
  nlohmann::json records = nlohmann::json::array();
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    records.push_back(nlohmann::json::parse(line));
    records.back().erase("time");
  }
  return records;
}

TEST(MetricsLog, StampsRecordsWithTheirTime) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const double before = seconds();
  MetricsLog(path.string(), false).write({{"type", "run"}});
  const double time = nlohmann::json::parse(read_file(path)).at("time");
  EXPECT_GE(time, before - 0.001);
  EXPECT_LE(time, seconds());
}

TEST(MetricsLog, WritesALineARecordAtOnce) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsLog log(path.string(), false);
  log.write({{"type", "run"}});
  EXPECT_EQ(records_of(path), nlohmann::json::parse(R"([{"type": "run"}])"));
  log.write({{"type", "step"}});
  EXPECT_EQ(records_of(path), nlohmann::json::parse(R"([{"type": "run"}, {"type": "step"}])"));
}

TEST(MetricsLog, AppendsOrBeginsAnew) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsLog(path.string(), false).write({{"n", 1}});
  MetricsLog(path.string(), true).write({{"n", 2}});
  EXPECT_EQ(records_of(path), nlohmann::json::parse(R"([{"n": 1}, {"n": 2}])"));
  MetricsLog(path.string(), false).write({{"n", 3}});
  EXPECT_EQ(records_of(path), nlohmann::json::parse(R"([{"n": 3}])"));
}

TEST(MetricsLog, MovesAndIsSilentWithoutAFile) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsLog log;
  log.write({{"lost", true}});
  log = MetricsLog(path.string(), false);
  log.write({{"n", 1}});
  EXPECT_EQ(records_of(path), nlohmann::json::parse(R"([{"n": 1}])"));
}

ProgressState progress_at(std::uint32_t epoch, Count step, bool evaluation_due) {
  ProgressState progress;
  progress.epoch = epoch;
  progress.step_in_epoch = step;
  progress.evaluation_due = evaluation_due;
  return progress;
}

TEST(MetricsLog, ForgetsWhatAResumedRunWritesAgain) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string kept =
      "{\"type\":\"run\"}\n{\"epoch\":1,\"step\":9,\"type\":\"step\"}\n{\"epoch\":1,\"type\":\"epoch\"}\n"
      "{\"epoch\":1,\"type\":\"evaluation\"}\n{\"epoch\":2,\"step\":9,\"type\":\"step\"}\n"
      "{\"epoch\":2,\"type\":\"epoch\"}\n{\"epoch\":2,\"type\":\"ranks\"}\n";
  const std::string evaluation =
      "{\"epoch\":2,\"type\":\"evaluation\"}\n{\"epoch\":2,\"type\":\"classes\"}\n";
  const std::string begun = "{\"epoch\":3,\"step\":4,\"type\":\"step\"}\n";
  const std::string after =
      "{\"epoch\":3,\"step\":5,\"type\":\"step\"}\n{\"epoch\":3,\"type\":\"epoch\"}\n"
      "{\"epoch\":3,\"type\":\"ranks\"}\n{\"epoch\":3,\"type\":\"classes\"}\n"
      "{\"epoch\":3,\"type\":\"evaluation\"}\n{\"epoch\":4,\"step\":1,\"type\":\"step\"}\n"
      "{\"epochs\":4,\"type\":\"final\"}\n{\"epoch\":4,\"st";
  const auto remaining = [&](const ProgressState& progress) {
    write_file_atomically(path, kept + evaluation + begun + after);
    forget_records_after(progress, path.string());
    return read_file(path);
  };
  EXPECT_EQ(remaining(progress_at(2, 4, false)), kept + evaluation + begun);
  EXPECT_EQ(remaining(progress_at(2, 0, false)), kept + evaluation);
  EXPECT_EQ(remaining(progress_at(2, 0, true)), kept);

  write_file_atomically(path, "no JSON\n[1]\n{\"type\":7}\n" + kept);
  forget_records_after(progress_at(2, 0, false), path.string());
  EXPECT_EQ(read_file(path), kept);
  forget_records_after({}, (folder / "missing").string());
  EXPECT_FALSE(std::filesystem::exists(folder / "missing"));
}

TEST(MetricsLog, NamesTheFileThatCannotBeOpened) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "missing/metrics.jsonl").string();
  try {
    const MetricsLog log(path, false);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace strata::train
