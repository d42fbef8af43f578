// SPDX-License-Identifier: Apache-2.0
#include "task/link_scores.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/mpi_world.hpp"
#include "task/link_loss.hpp"

namespace strata::train {
namespace {

struct ScoredLink {
  float score;
  std::vector<float> negatives;
  double rank;
};

TEST(LinkScores, RankLinksAmongTheirNegativesOnAnyRanks) {
  const std::vector<ScoredLink> links = {
      {1, {2, 0, 1, -1}, 2.5},
      {5, {1, 2, 3, 4}, 1},
      {0, {0, 0, 0, 0}, 3},
      {-3, {1, 1, 1, 1}, 5},
      {std::numeric_limits<float>::quiet_NaN(), {1, 2, 3, 4}, 5},
  };
  const comm::Communicator& world = test::world().communicator();
  ThreadPool pool(1);
  for (const bool with_nan : {false, true}) {
    const std::size_t count = links.size() - (with_nan ? 0 : 1);
    LinkScoreBoard board(LossKind::bpr);
    double reciprocals = 0, right = 0, loss = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (static_cast<int>(i) % world.size() == world.rank()) board.add(links[i].score, links[i].negatives);
      reciprocals += 1 / links[i].rank;
      loss += loss_of_link(LossKind::bpr, links[i].score, links[i].negatives);
      for (std::size_t other = 0; other < count; ++other)
        for (const float negative : links[other].negatives)
          right += links[i].score > negative ? 1 : links[i].score == negative ? 0.5 : 0;
    }
    const Scores scores = board.finish({.communicator = &world, .pool = &pool});
    const auto links_scored = static_cast<double>(count);
    EXPECT_EQ(scores.nodes, static_cast<Count>(count));
    EXPECT_NEAR(scores.of("mrr"), reciprocals / links_scored, 1e-7);
    EXPECT_EQ(scores.of("hits_10"), 1);
    EXPECT_EQ(std::isnan(scores.of("roc_auc")), with_nan);
    EXPECT_EQ(std::isnan(scores.loss), with_nan);
    if (with_nan) continue;
    EXPECT_NEAR(scores.of("roc_auc"), right / (links_scored * links_scored * 4), 1e-12);
    EXPECT_NEAR(scores.loss, loss / links_scored, 1e-6);
  }
}

}  // namespace
}  // namespace strata::train
