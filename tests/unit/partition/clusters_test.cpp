// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "random_graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

using test::communities;
using test::expect_error;
using test::random_graph;

constexpr std::int64_t kMebibyte = 1 << 20;

/// Nodes of a community are in one part, so that its clusters can be communities.
std::vector<std::int32_t> parts_of_communities(Count nodes, int num_parts) {
  std::vector<std::int32_t> part_of(at(nodes));
  for (Count v = 0; v < nodes; ++v) part_of[at(v)] = static_cast<std::int32_t>(v % 64 * num_parts / 64);
  return part_of;
}

/// Entries whose ends are in one part, but in different clusters of it, and all whose ends are in one part.
struct InnerEdges {
  Count between = 0, all = 0;
};
InnerEdges inner_edges(const graph::CscGraph& graph, const std::vector<std::int32_t>& part_of,
                       const std::vector<std::int32_t>& clusters) {
  InnerEdges edges;
  for (NodeId v = 0; v < graph.num_nodes; ++v)
    for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v + 1)]; ++e) {
      const NodeId u = graph.indices[at(e)];
      if (part_of[at(u)] != part_of[at(v)]) continue;
      ++edges.all;
      edges.between += clusters[at(u)] != clusters[at(v)];
    }
  return edges;
}

std::vector<std::int32_t> cut_in_memory(const graph::CscGraph& graph,
                                        const std::vector<std::int32_t>& part_of,
                                        const AssignOptions& options, int threads) {
  ThreadPool pool{threads};
  return cut_clusters(compact(graph, pool), part_of, options, pool);
}

void expect_balance(const std::vector<std::int32_t>& part_of, const std::vector<std::int32_t>& clusters,
                    const AssignOptions& options) {
  std::vector<Count> in_part(at(options.num_parts)),
      in_cluster(at(Count{options.num_parts} * options.clusters));
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    ASSERT_GE(clusters[v], 0);
    ASSERT_LT(clusters[v], options.clusters);
    ++in_part[at(part_of[v])];
    ++in_cluster[at(Count{part_of[v]} * options.clusters + clusters[v])];
  }
  for (std::size_t c = 0; c < in_cluster.size(); ++c) {
    const double mean = static_cast<double>(in_part[c / at(options.clusters)]) / options.clusters;
    EXPECT_LE(static_cast<double>(in_cluster[c]), mean * (1 + options.imbalance) + 1) << "cluster " << c;
    EXPECT_GT(in_cluster[c], 0) << "cluster " << c;
  }
}

TEST(Clusters, FollowCommunitiesAndAreOfOneSizeForEveryNumberOfThreads) {
  constexpr Count kNodes = 12'800;
  const graph::CscGraph graph = communities(kNodes, 130'000);
  for (const int parts : {1, 2, 4}) {
    SCOPED_TRACE(std::to_string(parts) + " parts");
    const std::vector<std::int32_t> part_of = parts_of_communities(kNodes, parts);
    const AssignOptions options{.num_parts = parts, .clusters = 64 / parts};
    const std::vector<std::int32_t> clusters = cut_in_memory(graph, part_of, options, 1);
    EXPECT_EQ(cut_in_memory(graph, part_of, options, 3), clusters);
    expect_balance(part_of, clusters, options);
    const InnerEdges edges = inner_edges(graph, part_of, clusters);
    EXPECT_LT(edges.between * 100, edges.all * 15) << "a tenth leads to any node";
  }
}

TEST(Clusters, AreCutOnDiskNearlyAsInMemory) {
  constexpr Count kNodes = 12'800;
  const graph::CscGraph graph = communities(kNodes, 130'000);
  const test::TemporaryFolder folder;
  for (const int parts : {1, 2})
    for (const std::int64_t room : {64 * kMebibyte, kMebibyte}) {
      SCOPED_TRACE(std::to_string(parts) + " parts, room " + std::to_string(room));
      const std::vector<std::int32_t> part_of = parts_of_communities(kNodes, parts);
      const AssignOptions options{.num_parts = parts, .clusters = 16};
      ThreadPool pool{2};
      ScratchStore scratch{folder.path(), room};
      const std::vector<std::int32_t> clusters =
          cut_clusters(compact(test::stored(graph, false, scratch), scratch), part_of, options, pool);
      expect_balance(part_of, clusters, options);
      const InnerEdges edges = inner_edges(graph, part_of, clusters),
                       best = inner_edges(graph, part_of, cut_in_memory(graph, part_of, options, 2));
      EXPECT_LE(static_cast<double>(edges.between), 1.2 * static_cast<double>(best.between));
    }
}

TEST(Clusters, OfPartsWithFewNodesAreRuns) {
  const graph::CscGraph graph = communities(640, 3000);
  std::vector<std::int32_t> part_of(640, 0);
  part_of[17] = 2;  // alone; part 1 is empty
  const std::vector<std::int32_t> clusters =
      cut_in_memory(graph, part_of, {.num_parts = 3, .clusters = 200}, 2);
  EXPECT_EQ(clusters[17], 0);
  EXPECT_EQ(std::set(clusters.begin(), clusters.end()).size(), 200u);
}

TEST(Clusters, AreRefusedIfThereAreMoreThanNodes) {
  const graph::CscGraph graph = communities(640, 3000);
  expect_error<InputError>(
      [&] { cut_in_memory(graph, std::vector<std::int32_t>(640), {.num_parts = 2, .clusters = 321}, 1); },
      {"321 clusters in each of 2 parts for 640 nodes", "--clusters"});
}

class BuiltWithClusters : public testing::Test {
 protected:
  BuildReport build_with(int clusters, const std::string& name) {
    return build(
        random_graph({.num_nodes = 600, .num_edges = 6000}),
        {.output = folder_ / name, .assign = {.num_parts = 3, .clusters = clusters}, .num_threads = 2},
        stop_);
  }
  test::TemporaryFolder folder_;
  StopFlag stop_;
};

TEST_F(BuiltWithClusters, PartsHaveTheClusterOfEachRow) {
  const graph::PartitionRecord record = build_with(7, "out").record;
  const auto problems = verify(folder_ / "out", 2);
  EXPECT_TRUE(problems.empty()) << verify_text(folder_ / "out", problems);
  EXPECT_THAT(info_text(record), testing::HasSubstr("clusters per part"));
  EXPECT_THAT(info_json(record), testing::HasSubstr("\"clusters\": 7"));

  const graph::Graph graph = random_graph({.num_nodes = 600, .num_edges = 6000});
  ThreadPool pool{1};
  const CompactGraph structure = compact(graph.structure, pool);
  const AssignOptions options{.num_parts = 3, .clusters = 7};
  const std::vector<std::int32_t> expected =
      cut_clusters(structure, assign_parts(structure, graph.splits.train, options, pool), options, pool);
  const graph::Manifest manifest = graph::read_manifest(folder_ / "out");
  for (int part = 0; part < 3; ++part) {
    const auto reader = graph::PartReader::open(folder_ / "out", manifest, part);
    std::vector<NodeId> originals(at(reader.num_inner()));
    std::vector<std::int32_t> clusters(originals.size());
    reader.read_original_ids(0, reader.num_inner(), originals.data());
    reader.read_clusters(0, reader.num_inner(), clusters.data());
    for (std::size_t row = 0; row < originals.size(); ++row)
      ASSERT_EQ(clusters[row], expected[at(originals[row])]) << "part " << part << ", row " << row;
  }
}

TEST_F(BuiltWithClusters, PartsAreOfTheSameGraphAndOfAnotherBuild) {
  const graph::PartitionRecord with = build_with(7, "with").record, without = build_with(0, "without").record;
  EXPECT_EQ(with.graph_digest, without.graph_digest);
  EXPECT_NE(with.manifest.build_id, without.manifest.build_id);
  EXPECT_EQ(with.manifest.book.offsets()[1], without.manifest.book.offsets()[1]);
  EXPECT_THAT(info_text(without), testing::Not(testing::HasSubstr("clusters")));
  EXPECT_THAT(graph::format_manifest(without), testing::Not(testing::HasSubstr("cluster")));
}

}  // namespace
}  // namespace strata::partition
