// SPDX-License-Identifier: Apache-2.0
#include "task/target_scores.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "strata/util/label_shape.hpp"
#include "support/mpi_world.hpp"

namespace strata::train {
namespace {

constexpr int kNodes = 200;
const std::vector<graph::TargetScale> kScales = {{100, 20}, {-1, 0.5}};

struct Node {
  std::vector<float> outputs;  ///< scaled
  std::vector<std::int32_t> words;

  double target(std::size_t c) const { return std::bit_cast<float>(words[c]); }
  double predicted(std::size_t c) const { return outputs[c] * kScales[c].deviation + kScales[c].mean; }
};

/// Every fifth node has no target of column 1, every tenth none.
std::vector<Node> some_nodes() {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::vector<Node> nodes(kNodes);
  for (int i = 0; i < kNodes; ++i)
    for (std::size_t c = 0; c < kScales.size(); ++c) {
      const float scaled = normal(random);
      const auto target = static_cast<float>(scaled * kScales[c].deviation + kScales[c].mean);
      const bool missing = i % 10 == 0 || (c == 1 && i % 5 == 0);
      nodes[at(i)].outputs.push_back(scaled + 0.3f * normal(random));
      nodes[at(i)].words.push_back(missing ? kMissingTarget : std::bit_cast<std::int32_t>(target));
    }
  return nodes;
}

/// The scores of nodes of which each rank has those that `takes` says.
template <typename Takes>
Scores scores_of(const std::vector<Node>& nodes, const comm::Communicator& communicator, const Takes& takes,
                 std::string* details = nullptr) {
  TargetScoreBoard board(LossKind::mse, kScales);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (takes(static_cast<int>(i))) board.add(nodes[i].outputs, nodes[i].words.data());
  const Scores scores = board.finish({.communicator = &communicator});
  if (details != nullptr) *details = board.details();
  return scores;
}

TEST(TargetScores, AreThoseOfAllNodesOnAnyRanks) {
  const std::vector<Node> nodes = some_nodes();
  const comm::Communicator& world = test::world().communicator();
  std::string details;
  const Scores scores = scores_of(
      nodes, world, [&](int i) { return i % world.size() == world.rank(); }, &details);
  const Scores uneven = scores_of(nodes, world, [&](int) { return world.rank() == world.size() - 1; });
  EXPECT_EQ(scores.values, uneven.values) << "to the last bit";
  EXPECT_EQ(scores.loss, uneven.loss);
  double squares = 0, magnitudes = 0, r2 = 0, loss = 0;
  int known = 0;
  for (std::size_t c = 0; c < kScales.size(); ++c) {
    double mean = 0, error = 0, spread = 0;
    int of_column = 0;
    for (const Node& node : nodes)
      if (node.words[c] != kMissingTarget) mean += node.target(c), ++of_column;
    mean /= of_column;
    for (const Node& node : nodes) {
      if (node.words[c] == kMissingTarget) continue;
      const double difference = node.predicted(c) - node.target(c);
      error += difference * difference;
      magnitudes += std::abs(difference);
      spread += (node.target(c) - mean) * (node.target(c) - mean);
      loss += difference * difference / (kScales[c].deviation * kScales[c].deviation);
    }
    squares += error;
    r2 += (1 - error / spread) / static_cast<double>(kScales.size());
    known += of_column;
  }
  EXPECT_EQ(scores.nodes, kNodes - kNodes / 10);
  EXPECT_NEAR(scores.of("rmse"), std::sqrt(squares / known), 1e-4);
  EXPECT_NEAR(scores.of("mae"), magnitudes / known, 1e-4);
  EXPECT_NEAR(scores.of("r2"), r2, 1e-5);
  EXPECT_NEAR(scores.loss, loss / 2 / static_cast<double>(scores.nodes), 1e-5);
  const nlohmann::json columns = nlohmann::json::parse(details).at("columns");
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_NEAR((columns[0].at("r2").get<double>() + columns[1].at("r2").get<double>()) / 2, scores.of("r2"),
              1e-12);
}

TEST(TargetScores, AreUndefinedWithoutNodes) {
  const Scores scores = scores_of({}, test::world().communicator(), [](int) { return true; });
  EXPECT_EQ(scores.nodes, 0);
  for (const char* const name : {"rmse", "mae", "r2"}) EXPECT_TRUE(std::isnan(scores.of(name))) << name;
  Scores better = scores;
  better.nodes = 1;
  better.values[0].value = 2;
  EXPECT_TRUE(better.beats(scores, "rmse"));
  Scores best = better;
  best.values[0].value = 1;
  EXPECT_TRUE(best.beats(better, "rmse") && !better.beats(best, "rmse")) << "a smaller error is better";
}

}  // namespace
}  // namespace strata::train
