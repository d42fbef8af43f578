// SPDX-License-Identifier: Apache-2.0
#include "strata/util/progress.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <thread>

#include "random_graph.hpp"
#include "strata/partition/assign.hpp"

namespace strata::partition {
namespace {

TEST(Progress, ShowsHowFarTheLongPassesOfACutHaveCome) {
  ThreadPool pool{1};
  const CompactGraph graph = compact(test::communities(200'000, 2'000'000), pool);
  const BarWatch watch;
  std::atomic<bool> done{false};
  const std::jthread cut([&] {
    assign_parts(graph, {}, {.num_parts = 8, .method = PartitionMethod::multilevel}, pool);
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
  EXPECT_THAT(titles, testing::IsSupersetOf({"cluster nodes", "contract", "refine"}));
}

}  // namespace
}  // namespace strata::partition
