// SPDX-License-Identifier: Apache-2.0
#include "generators/planted.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::graph {
namespace {

constexpr const char* kGraph =
    "nodes=3001,degree=12,parts=4,within=0.9,features=5,classes=3,train=301,valid=100,test=50,seed=3";

PartsOrigin origin() { return parse_planted(kGraph); }
PartReader part_of(int part) { return PartReader::open(origin(), read_manifest(origin()), part); }

std::vector<NodeId> indices_of(const PartReader& part) {
  std::vector<NodeId> indices(at(part.num_edges()));
  part.read_indices(0, part.num_edges(), indices.data());
  return indices;
}

TEST(Planted, PartsMakeUpTheGraph) {
  const Manifest manifest = read_manifest(origin());
  EXPECT_EQ(manifest.book.num_parts(), 4);
  EXPECT_EQ(manifest.book.num_nodes(), 3001);
  EXPECT_NEAR(static_cast<double>(manifest.num_edges), 12 * 3001, 0.1 * 12 * 3001);
  EXPECT_EQ(manifest.num_train, 301);
  Count nodes = 0, edges = 0;
  for (int part = 0; part < 4; ++part) {
    const PartReader reader = part_of(part);
    nodes += reader.num_inner();
    edges += reader.num_edges();
    Count first = -1, last = -1;
    reader.read_indptr(0, 1, &first);
    reader.read_indptr(reader.num_inner(), 1, &last);
    EXPECT_EQ(first, 0);
    EXPECT_EQ(last, reader.num_edges());
    NodeId original = -1;
    reader.read_original_ids(reader.num_inner() - 1, 1, &original);
    EXPECT_EQ(original, manifest.book.offsets()[at(part) + 1] - 1);
  }
  EXPECT_EQ(nodes, 3001);
  EXPECT_EQ(edges, manifest.num_edges);
}

TEST(Planted, SpecsOfOneGraphHaveOneDigest) {
  const auto digest = [](const char* text) { return read_graph_digest(parse_planted(text)); };
  const std::string first = digest("nodes=300,degree=4,parts=2");
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(digest("parts=2,edges=1200,nodes=300,within=0.9"), first);
  EXPECT_NE(digest("nodes=300,degree=4,parts=3"), first);
  EXPECT_NE(digest("nodes=300,degree=4,parts=2,within=0.8"), first);
  EXPECT_NE(digest("nodes=300,degree=4,parts=2,seed=1"), first);
}

TEST(Planted, MostEdgesStayWithinTheirPart) {
  const Manifest manifest = read_manifest(origin());
  Count within = 0;
  std::set<int> met;
  for (int part = 0; part < 4; ++part) {
    for (const NodeId id : indices_of(part_of(part))) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, 3001);
      within += manifest.book.part_of(id) == part;
      met.insert(manifest.book.part_of(id) * 4 + part);
    }
  }
  EXPECT_NEAR(static_cast<double>(within) / static_cast<double>(manifest.num_edges), 0.9, 0.02);
  EXPECT_EQ(met.size(), 16u);
}

TEST(Planted, ReadsAnyRangeOfAPart) {
  const PartReader part = part_of(2);
  const std::vector<NodeId> all = indices_of(part);
  for (const auto& [first, count] : {std::pair<Count, Count>{0, 1},
                                     {7, 1000},
                                     {1234, 3},
                                     {part.num_edges() - 5, 5},
                                     {part.num_edges(), 0}}) {
    std::vector<NodeId> some(at(count));
    part.read_indices(first, count, some.data());
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first)) << first;
  }
  std::vector<float> rows(5 * 20), row(5);
  part.read_features(100, 20, rows.data());
  part.read_features(110, 1, row.data());
  EXPECT_TRUE(std::equal(row.begin(), row.end(), rows.begin() + 50));
  NodeId none = 0;
  EXPECT_THROW(part.read_indices(part.num_edges(), 1, &none), InputError);
  EXPECT_THROW(part.read_original_ids(-1, 1, &none), InputError);
}

TEST(Planted, PutsEveryNodeInOneSplitAtMost) {
  std::set<NodeId> seen;
  const Manifest manifest = read_manifest(origin());
  for (const auto& [split, size] : {std::pair{Split::train, 301}, {Split::valid, 100}, {Split::test, 50}}) {
    std::vector<NodeId> by_rank(at(size), -1);
    for (int part = 0; part < 4; ++part) {
      const PartReader reader = part_of(part);
      const PartData::SplitRows rows = reader.read_split(split);
      ASSERT_EQ(std::ssize(rows.rows), reader.split_size(split));
      EXPECT_NEAR(static_cast<double>(rows.rows.size()), size / 4.0, 2);
      for (std::size_t i = 0; i < rows.rows.size(); ++i) {
        const NodeId node = manifest.book.global_of(part, rows.rows[i]);
        ASSERT_TRUE(seen.insert(node).second) << node;
        ASSERT_LT(rows.ranks[i], size);
        by_rank[at(rows.ranks[i])] = node;
      }
    }
    EXPECT_TRUE(std::ranges::is_sorted(by_rank));
    EXPECT_GE(by_rank.front(), 0);  // every rank was given
  }
}

TEST(Planted, TakesPresetsAndRefusesWhatItCannotMake) {
  const PlantedSpec spec = parse_planted("papers100M,nodes=1000,parts=2,within=0.5");
  EXPECT_EQ(spec.shape.features, 128);
  EXPECT_EQ(spec.parts, 2);
  EXPECT_EQ(spec.within, 0.5);
  for (const char* text : {"parts=0", "nodes=3,parts=4", "within=1.5", "within=x", "colour=red",
                           "weights=uniform", "dtype=f16", "nodes=5000,degree=2000"}) {
    EXPECT_THROW(parse_planted(text), InputError) << text;
  }
}

}  // namespace
}  // namespace strata::graph
