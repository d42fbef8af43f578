// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/sampling/sampler.hpp"
#include "strata/store/graph_view.hpp"

namespace strata {
namespace {

/// Users and items in one space of ids, users first, and two relations over it: the items that a user rated,
/// and the users who rated an item.
struct Ratings {
  static constexpr Count kUsers = 40, kItems = 60, kNodes = kUsers + kItems;
  std::vector<NodeId> ids;
  std::vector<std::vector<Count>> indptr{{0}, {0}};
  std::vector<std::vector<NodeId>> indices{{}, {}};

  Ratings() {
    for (NodeId v = 0; v < kNodes; ++v) ids.push_back(v);
    for (const std::size_t relation : {0, 1}) {
      for (NodeId v = 0; v < kNodes; ++v) {
        for (NodeId u = 0; u < kNodes; ++u)
          if (is_user(v) == (relation == 0) && is_user(u) != is_user(v) && (u + v) % 7 < 3)
            indices[relation].push_back(u);
        indptr[relation].push_back(std::ssize(indices[relation]));
      }
    }
  }
  static bool is_user(NodeId v) { return v < kUsers; }
  store::GraphView view(std::size_t relation) const {
    return {
        {.device = {}, .num_nodes = kNodes, .num_local = kNodes, .original_ids = {ids.data(), kNodes, true}},
        {.number = static_cast<std::uint16_t>(relation),
         .indptr = indptr[relation].data(),
         .indices = {indices[relation].data(), std::ssize(indices[relation]), true},
         .edge_ids = {}}};
  }
};

TEST(OwnTypes, SampleEachRelationByItsOwnKey) {
  const Ratings ratings;
  ThreadPool pool(1);
  std::vector<NodeId> seeds;
  for (NodeId v = 0; v < Ratings::kNodes; v += 3) seeds.push_back(v);
  for (const std::size_t relation : {0, 1}) {
    const store::GraphView view = ratings.view(relation);
    const auto sampler = sampling::make_sampler(view, {.fanouts = {4}, .max_seeds = 100}, {}, 1, pool);
    const sampling::MiniBatch batch = sampler->sample(seeds, {.seed = 3}, 0, {});
    const sampling::Block& block = batch.blocks.front();
    for (Count i = 0; i < block.num_dst; ++i) {
      const bool has_lists = Ratings::is_user(seeds[at(i)]) == (relation == 0);
      EXPECT_EQ(block.indptr[i + 1] - block.indptr[i], has_lists ? 4 : 0) << relation << ": " << i;
      for (Count e = block.indptr[i]; e < block.indptr[i + 1]; ++e)
        EXPECT_NE(Ratings::is_user(block.src_nodes[block.indices[e]]), relation == 0);
    }
  }
}

}  // namespace
}  // namespace strata
