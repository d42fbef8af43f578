// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "strata/batches/pipeline.hpp"
#include "strata/util/files.hpp"
#include "support/mpi_world.hpp"
#include "support/temporary_folder.hpp"

namespace strata::batches {
namespace {

std::filesystem::path shared_path(const test::TemporaryFolder& folder) {
  std::string name = (folder.path() / "trace.json").string();
  name.resize(4096, '\0');
  test::world().communicator().broadcast(name.data(), std::ssize(name), 0);
  return name.c_str();
}

TEST(Trace, HoldsTheSpansOfAllRanks) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = shared_path(folder);
  Trace trace(1000);
  const auto work = [&](Trace::Lane lane) {
    for (std::int64_t step = 0; step < 50; ++step) const TraceSpan span(&trace, lane, step);
  };
  std::thread other([&] { work(Trace::Lane::gather); });
  work(Trace::Lane::sample);
  other.join();
  { const TraceSpan span(&trace, Trace::Lane::evaluate); }
  const auto now = Trace::Clock::now();
  for (const int hop : {0, 1})
    trace.exchanged({.what = Trace::Messages::What::neighbors, .hop = hop, .begin = now, .end = now});
  trace.exchanged({.what = Trace::Messages::What::rows, .begin = now, .end = now});
  trace.write(path, test::world().communicator());
  test::world().communicator().barrier();

  std::map<int, std::map<std::string, int>> spans, names;
  const auto file = nlohmann::json::parse(read_file(path));
  for (const auto& event : file.at("traceEvents")) {
    const int rank = event.at("pid");
    if (event.at("ph") == "M") {
      ++names[rank][event.at("args").at("name")];
      continue;
    }
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_EQ(event.contains("args"), event.at("name") == "sample" || event.at("name") == "gather");
    ++spans[rank][event.at("name")];
  }
  ASSERT_EQ(spans.size(), at(test::world().size()));
  for (const auto& [rank, counts] : spans) {
    EXPECT_EQ(counts, (std::map<std::string, int>{{"sample", 50},
                                                  {"gather", 50},
                                                  {"evaluate", 1},
                                                  {"neighbor exchange, hop 1", 1},
                                                  {"neighbor exchange, hop 2", 1},
                                                  {"row exchange", 1}}));
    EXPECT_EQ(names[rank]["rank " + std::to_string(rank)], 1);
    EXPECT_EQ(names[rank]["train"], 1);
  }
  test::world().communicator().barrier();
}

TEST(Trace, KeepsTheFirstSpansOfALongRun) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = shared_path(folder);
  Trace trace(7);
  for (std::int64_t step = 0; step < 50; ++step) const TraceSpan span(&trace, Trace::Lane::train, step);
  trace.write(path, test::world().communicator());
  test::world().communicator().barrier();
  std::map<int, std::vector<std::int64_t>> steps;
  const auto file = nlohmann::json::parse(read_file(path));
  for (const auto& event : file.at("traceEvents"))
    if (event.at("ph") == "X") steps[event.at("pid")].push_back(event.at("args").at("step"));
  ASSERT_EQ(steps.size(), at(test::world().size()));
  for (const auto& [rank, kept] : steps) EXPECT_EQ(kept, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  test::world().communicator().barrier();
}

}  // namespace
}  // namespace strata::batches
