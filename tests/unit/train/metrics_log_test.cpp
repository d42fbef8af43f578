#include "metrics_log.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "support/temporary_folder.hpp"

namespace strata::train {
namespace {

TEST(MetricsLog, WritesALineARecordAtOnce) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsLog log(path.string(), false);
  log.write({{"type", "run"}});
  EXPECT_EQ(read_file(path), "{\"type\":\"run\"}\n");
  log.write({{"type", "step"}});
  EXPECT_EQ(read_file(path), "{\"type\":\"run\"}\n{\"type\":\"step\"}\n");
}

TEST(MetricsLog, AppendsOrBeginsAnew) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsLog(path.string(), false).write({{"n", 1}});
  MetricsLog(path.string(), true).write({{"n", 2}});
  EXPECT_EQ(read_file(path), "{\"n\":1}\n{\"n\":2}\n");
  MetricsLog(path.string(), false).write({{"n", 3}});
  EXPECT_EQ(read_file(path), "{\"n\":3}\n");
}

TEST(MetricsLog, MovesAndIsSilentWithoutAFile) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsLog log;
  log.write({{"lost", true}});
  log = MetricsLog(path.string(), false);
  log.write({{"n", 1}});
  EXPECT_EQ(read_file(path), "{\"n\":1}\n");
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
