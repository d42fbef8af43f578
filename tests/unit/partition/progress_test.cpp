// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <set>
#include <thread>

#include "output/convert.hpp"
#include "random_graph.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/log.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

/// The titles of the bars that work shows.
std::set<std::string> titles_of(const std::function<void()>& work) {
  const BarWatch watch;
  std::atomic<bool> done{false};
  const std::jthread worker([&] {
    work();
    done = true;
  });
  std::set<std::string> titles;
  while (!done) {
    for (const BarState& bar : watch.bars()) {
      titles.insert(bar.title);
      EXPECT_LE(bar.done, bar.total) << bar.title;
    }
    std::this_thread::yield();
  }
  return titles;
}

TEST(Progress, ShowsHowFarTheLongPassesOfACutHaveCome) {
  ThreadPool pool{1};
  const CompactGraph graph = compact(test::communities(200'000, 2'000'000), pool);
  const auto cut = [&] {
    assign_parts(graph, {}, {.num_parts = 8, .method = PartitionMethod::multilevel}, pool);
  };
  EXPECT_THAT(titles_of(cut), testing::IsSupersetOf({"cluster nodes", "contract", "refine"}));
}

TEST(Progress, ShowsHowFarDescriptionsCopiesAndChecksHaveCome) {
  const test::TemporaryFolder folder;
  ThreadPool pool{1};
  StopFlag stop;
  graph::Graph graph;
  graph.structure = test::communities(200'000, 2'000'000);
  graph.num_classes = 2;
  for (NodeId v = 0; v < graph.num_nodes(); ++v) graph.labels.push_back(static_cast<std::int32_t>(v % 2));
  EXPECT_THAT(titles_of([&] { summarize(graph, pool); }),
              testing::IsSupersetOf({"components", "compare labels"}));
  EXPECT_THAT(titles_of([&] { write_npy_folder(graph, folder / "npy", stop); }),
              testing::Contains("write edge_index"));
  build(std::move(graph),
        {.output = folder / "parts", .assign = {.num_parts = 1, .method = PartitionMethod::range}}, stop);
  EXPECT_THAT(titles_of([&] { EXPECT_TRUE(verify(folder / "parts", 1).empty()); }),
              testing::IsSupersetOf({"check bytes", "check contents"}));
}

}  // namespace
}  // namespace strata::partition
