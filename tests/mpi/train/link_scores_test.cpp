// SPDX-License-Identifier: Apache-2.0
#include "task/link_scores.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

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
    LinkScoreBoard board(LossKind::bpr, {"cites", "likes"});
    double reciprocals = 0, right = 0, loss = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (static_cast<int>(i) % world.size() == world.rank())
        board.add({.relation = 1}, links[i].score, links[i].negatives);
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
    EXPECT_EQ(board.details(), "") << "one relation and side";
    EXPECT_EQ(std::isnan(scores.of("roc_auc")), with_nan);
    EXPECT_EQ(std::isnan(scores.loss), with_nan);
    if (with_nan) continue;
    EXPECT_NEAR(scores.of("roc_auc"), right / (links_scored * links_scored * 4), 1e-12);
    EXPECT_NEAR(scores.loss, loss / links_scored, 1e-6);
  }
}

TEST(LinkScores, AreReportedByRelationAndSide) {
  const comm::Communicator& world = test::world().communicator();
  ThreadPool pool(1);
  LinkScoreBoard board(LossKind::bce, {"cites", "likes"});
  board.add_rank({.relation = 0, .side = nn::Side::tail}, 1);
  board.add_rank({.relation = 0, .side = nn::Side::head}, 20);
  board.add_rank({.relation = 1, .side = nn::Side::tail}, 2);
  const Scores scores = board.finish({.communicator = &world, .pool = &pool});
  EXPECT_EQ(scores.nodes, 2 * world.size());
  EXPECT_NEAR(scores.of("mrr"), (1 + 0.05 + 0.5) / 3, 1e-7);
  EXPECT_NEAR(scores.of("hits_10"), 2.0 / 3, 1e-12);
  EXPECT_TRUE(std::isnan(scores.loss)) << "only ranks are known";
  const nlohmann::json details = nlohmann::json::parse(board.details());
  ASSERT_EQ(details["groups"].size(), 3);
  EXPECT_EQ(details["groups"][0]["negatives"], "source");
  EXPECT_EQ(details["groups"][1]["mrr"], 1);
  EXPECT_EQ(details["groups"][2]["relation"], "likes");
  EXPECT_EQ(details["groups"][2]["links"], world.size());
}

}  // namespace
}  // namespace strata::train
