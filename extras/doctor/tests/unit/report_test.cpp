// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <gmock/gmock.h>

#include <cctype>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "healthy_ranks.hpp"
#include "support/temporary_folder.hpp"

namespace strata::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// "## Locked memory" -> "locked-memory", as links reach it.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find_first_not_of("# "))) {
    if (c == ' ')
      anchor += '-';
    else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

TEST(Remedies, AreHeadingsOfThePageThatExplainsThem) {
  std::set<std::string> anchors;
  std::ifstream page(STRATA_DOCS "/troubleshooting.md");
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("#")) anchors.insert(anchor_of(line));
  for (const auto& entry : enum_names<Remedy>)
    EXPECT_TRUE(anchors.contains(std::string(entry.name))) << remedy_page(entry.value) << " is no heading";
}

TEST(ExitCode, IsThatOfTheWorstFinding) {
  EXPECT_EQ(exit_code({}), 0);
  EXPECT_EQ(exit_code({{.level = Level::note}}), 0);
  EXPECT_EQ(exit_code({{.level = Level::warning}, {.level = Level::note}}), 1);
  EXPECT_EQ(exit_code({{.level = Level::failure}, {.level = Level::warning}}), 2);
}

TEST(Report, TellsAlikeHostsOnce) {
  const std::vector<Host> hosts{{"h0", {0}}, {"h1", {1}}, {"h2", {2}}};
  EXPECT_THAT(lines_by_host(hosts, {"a", "a", "a"}), ElementsAre("a"));
  EXPECT_THAT(lines_by_host(hosts, {"a", "b", "a"}), ElementsAre("h0, h2: a", "h1: b"));
}

TEST(Report, LeavesNoBlankLineWhereNothingIsToBeDone) {
  const Request request;
  Report report(request, true, std::chrono::steady_clock::now());
  testing::internal::CaptureStdout();
  report.add("nccl", {},
             {{.level = Level::note, .check = "nccl", .message = "it was slow", .remedy = Remedy::nccl},
              {.level = Level::note,
               .check = "nccl",
               .message = "again",
               .action = "Look at it.",
               .remedy = Remedy::nccl}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "  note     it was slow\n"
            "           See docs/troubleshooting.md#slow-nccl\n"
            "  note     again\n"
            "           Look at it.\n"
            "           See docs/troubleshooting.md#slow-nccl\n");
}

TEST(Report, BreaksLongLinesButNoRowsOfTables) {
  const Request request;
  Report report(request, true, std::chrono::steady_clock::now());
  const std::string words = "one two three four five six seven eight nine ten eleven twelve thirteen ";
  testing::internal::CaptureStdout();
  report.add("ranks", {"  " + words + "end", words + " table"},
             {{.level = Level::note,
               .check = "ranks",
               .host = "h1",
               .message = words + "end",
               .action = words + "end",
               .remedy = Remedy::memory}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "ranks        one two three four five six seven eight nine ten eleven twelve\n"
            "             thirteen end\n"
            "           one two three four five six seven eight nine ten eleven twelve thirteen  table\n"
            "  note     h1: one two three four five six seven eight nine ten eleven twelve\n"
            "           thirteen end\n"
            "           one two three four five six seven eight nine ten eleven twelve\n"
            "           thirteen end\n"
            "           See docs/troubleshooting.md#little-memory-per-rank\n");
}

TEST(Report, WritesWhatWasFound) {
  const strata::test::TemporaryFolder folder;
  const Request request{.json = folder / "found.json"};
  Report report(request, true, std::chrono::steady_clock::now());
  report.begin(test::healthy_ranks(2));
  report.add("limits", {"a line"},
             {{.level = Level::warning,
               .check = "limits",
               .host = "h1",
               .message = "m",
               .remedy = Remedy::open_files}});
  report.keep("clocks", std::vector<ClockOffset>(2));
  EXPECT_EQ(report.end(), 1);
  const auto record = nlohmann::json::parse(std::ifstream(request.json));
  EXPECT_EQ(record.at("exit_code"), 1);
  EXPECT_EQ(record.at("hosts"), (std::vector<std::string>{"h0", "h1"}));
  EXPECT_EQ(record.at("findings").at(0).at("host"), "h1");
  EXPECT_EQ(record.at("findings").at(0).at("remedy"), "docs/troubleshooting.md#open-files");
  EXPECT_EQ(record.at("facts").at("clocks").size(), 2U);
  EXPECT_EQ(record.at("facts").at("ranks").size(), 2U);
}

TEST(Report, EndsOnceWithTheRankThatFellSilent) {
  const strata::test::TemporaryFolder folder;
  const Request request{.json = folder / "found.json"};
  Report report(request, false, std::chrono::steady_clock::now());
  report.begin(test::healthy_ranks(2));
  EXPECT_EQ(report.end_early({.level = Level::failure, .check = "silence"}, {1}), 2);
  report.add("clocks", {}, {{.level = Level::warning}});  // comes too late
  const auto record = nlohmann::json::parse(std::ifstream(request.json));
  EXPECT_EQ(record.at("findings").size(), 1U);
  EXPECT_EQ(record.at("findings").at(0).at("host"), "h1");
  EXPECT_EQ(record.at("exit_code"), 2);
}

TEST(Describe, TellsOfEveryCheck) {
  const auto ranks = test::healthy_ranks(2);
  EXPECT_THAT(describe_versions(ranks), ElementsAre(HasSubstr("Open MPI v4.1.4")));
  EXPECT_THAT(describe_ranks(ranks),
              ElementsAre(HasSubstr("1 rank on 4 processors, 4 cores and 16 GiB per rank")));
  EXPECT_THAT(describe_limits(ranks), ElementsAre(HasSubstr("locked memory unlimited, 65536 open files")));
  const NetworkFacts network{.links = {{0, 1, 1e-5, 2.5e6}, {1, 0, 1e-5, 2e9}}, .carriers = {"v0", "v0"}};
  EXPECT_THAT(describe_network(network, ranks),
              ElementsAre(HasSubstr("2.5 MB/s to 2.00 GB/s"), HasSubstr("all at once"),
                          HasSubstr("over v0, btl/tcp pml/ob1, MPI_THREAD_MULTIPLE, not CUDA-aware")));
  EXPECT_THAT(describe_output({.folder = "/proc", .free_bytes = std::numeric_limits<std::int64_t>::max()}),
              ElementsAre("/proc: its file system does not report how much is free"));
  EXPECT_THAT(describe_storage({{.part_bytes = 1 << 30, .bytes_per_second = 1e9}, {.bytes_per_second = 1e9}},
                               ranks, "parts"),
              ElementsAre(HasSubstr("2.00 GB/s")));
}

}  // namespace
}  // namespace strata::doctor
