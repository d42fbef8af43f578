// SPDX-License-Identifier: Apache-2.0
#include "build_csc.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "strata/util/random.hpp"
#include "support/expect_error.hpp"

namespace strata::graph {
namespace {

struct Pairs {
  std::vector<std::int64_t> sources, destinations;
  EdgeList list() const {
    return {.sources = sources.data(),
            .destinations = destinations.data(),
            .count = static_cast<Count>(sources.size()),
            .origin = "edges.npy"};
  }
};

struct RandomGraph {
  Count nodes, edges;
  NodeId below;  ///< ids of edges; nodes from here on are isolated
  std::uint64_t seed;
};

Pairs random_pairs(const RandomGraph& wanted) {
  Pairs pairs;
  for (Count e = 0; e < wanted.edges; ++e) {
    const std::uint64_t word = mix64(wanted.seed * 1'000'003 + static_cast<std::uint64_t>(e));
    const auto source = static_cast<NodeId>(word % static_cast<std::uint64_t>(wanted.below));
    const bool loop = (word >> 40) % 16 == 0;
    pairs.sources.push_back(source);
    pairs.destinations.push_back(
        loop ? source : static_cast<NodeId>(mix64(word) % static_cast<std::uint64_t>(wanted.below)));
  }
  return pairs;
}

struct Entry {
  NodeId source;
  EdgeId edge;
  auto operator<=>(const Entry&) const = default;
};

struct Expected {
  std::vector<std::vector<Entry>> lists;
  CleaningReport cleaning;
};

/// Walks the listed edges one by one, as the contract says.
Expected naive(Count num_nodes, const Pairs& pairs, const CscOptions& options) {
  Expected expected;
  expected.lists.resize(at(num_nodes));
  std::set<std::pair<NodeId, NodeId>> met;
  CleaningReport& report = expected.cleaning;
  for (std::size_t i = 0; i < pairs.sources.size(); ++i) {
    const NodeId a = pairs.sources[i], b = pairs.destinations[i];
    ++report.edges_read;
    const auto key = options.add_reverse ? std::minmax(a, b) : std::pair<const NodeId&, const NodeId&>(a, b);
    const bool again = !met.insert({key.first, key.second}).second;
    report.self_loops += a == b;
    report.duplicates += again;
    if (a == b && options.self_loops == EdgePolicy::remove) {
      ++report.self_loops_removed;
      continue;
    }
    if (again && options.duplicates == EdgePolicy::remove) {
      ++report.duplicates_removed;
      continue;
    }
    expected.lists[at(b)].push_back({a, static_cast<EdgeId>(i)});
    if (options.add_reverse && a != b) {
      ++report.reverse_added;
      expected.lists[at(a)].push_back({b, static_cast<EdgeId>(i)});
    }
  }
  for (auto& list : expected.lists) std::sort(list.begin(), list.end());
  return expected;
}

void expect_equal(const BuiltCsc& built, const Expected& expected) {
  const CscGraph& graph = built.structure;
  ASSERT_EQ(graph.indptr.size(), expected.lists.size() + 1);
  ASSERT_EQ(graph.edge_ids.size(), graph.indices.size());
  for (std::size_t v = 0; v < expected.lists.size(); ++v) {
    std::vector<Entry> list;
    for (Count e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e)
      list.push_back({graph.indices[at(e)], graph.edge_ids[at(e)]});
    ASSERT_EQ(list, expected.lists[v]) << "node " << v;
  }
  const CleaningReport &got = built.cleaning, &want = expected.cleaning;
  EXPECT_EQ(got.edges_read, want.edges_read);
  EXPECT_EQ(got.self_loops, want.self_loops);
  EXPECT_EQ(got.duplicates, want.duplicates);
  EXPECT_EQ(got.self_loops_removed, want.self_loops_removed);
  EXPECT_EQ(got.duplicates_removed, want.duplicates_removed);
  EXPECT_EQ(got.reverse_added, want.reverse_added);
  EXPECT_EQ(graph.num_edges(),
            got.edges_read - got.self_loops_removed - got.duplicates_removed + got.reverse_added);
}

using Policies = std::tuple<EdgePolicy, EdgePolicy, bool>;
class BuildCsc : public testing::TestWithParam<Policies> {
 protected:
  CscOptions options() const {
    return {.duplicates = std::get<0>(GetParam()),
            .self_loops = std::get<1>(GetParam()),
            .add_reverse = std::get<2>(GetParam())};
  }
};

TEST_P(BuildCsc, AgreesWithANaiveReferenceOnRandomGraphs) {
  const std::vector<RandomGraph> graphs = {{1, 0, 1, 1},
                                           {1, 5, 1, 2},
                                           {2, 9, 2, 3},
                                           {50, 400, 30, 4},
                                           {1024, 700, 1000, 5},
                                           {5000, 30'000, 4000, 6},
                                           {100'000, 3000, 100'000, 7}};
  for (const RandomGraph& wanted : graphs) {
    const Pairs pairs = random_pairs(wanted);
    const Expected expected = naive(wanted.nodes, pairs, options());
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      SCOPED_TRACE(testing::Message() << wanted.nodes << " nodes, " << wanted.edges << " edges, seed "
                                      << wanted.seed << ", threads " << threads);
      expect_equal(build_csc(wanted.nodes, pairs.list(), options(), pool), expected);
    }
  }
}

TEST_P(BuildCsc, IsTheSameForManyChunksAndThreads) {
  const RandomGraph wanted{
      .nodes = 3000, .edges = 140'000, .below = 2500, .seed = 11};  // several chunks of 65536 edges
  const Pairs pairs = random_pairs(wanted);
  const Expected expected = naive(wanted.nodes, pairs, options());
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    expect_equal(build_csc(wanted.nodes, pairs.list(), options(), pool), expected);
  }
}

TEST_P(BuildCsc, ReadsNarrowIdsAndPairs) {
  const Pairs pairs = random_pairs({.nodes = 300, .edges = 2000, .below = 300, .seed = 12});
  std::vector<std::int32_t> interleaved;
  for (std::size_t i = 0; i < pairs.sources.size(); ++i) {
    interleaved.push_back(static_cast<std::int32_t>(pairs.sources[i]));
    interleaved.push_back(static_cast<std::int32_t>(pairs.destinations[i]));
  }
  ThreadPool pool(2);
  const EdgeList list{.sources = interleaved.data(),
                      .destinations = interleaved.data() + 1,
                      .count = 2000,
                      .stride = 2,
                      .wide = false,
                      .origin = "edges.csv"};
  expect_equal(build_csc(300, list, options(), pool), naive(300, pairs, options()));
}

INSTANTIATE_TEST_SUITE_P(Policies, BuildCsc,
                         testing::Combine(testing::Values(EdgePolicy::keep, EdgePolicy::remove),
                                          testing::Values(EdgePolicy::keep, EdgePolicy::remove),
                                          testing::Bool()));

TEST(BuildCscExample, OfTheContract) {
  const Pairs pairs{.sources = {0, 2, 1}, .destinations = {1, 1, 2}};
  ThreadPool pool(1);
  const CscGraph graph = build_csc(3, pairs.list(), {}, pool).structure;
  EXPECT_EQ(graph.indptr, (std::vector<Count>{0, 0, 2, 3}));
  EXPECT_EQ(graph.indices, (std::vector<NodeId>{0, 2, 1}));
  EXPECT_EQ(graph.edge_ids, (std::vector<EdgeId>{0, 1, 2}));
}

TEST(BuildCscExample, HubWithAMillionNeighbors) {
  constexpr Count kLeaves = 1'000'000;
  Pairs pairs;
  for (NodeId v = kLeaves; v >= 1; --v) {
    pairs.sources.push_back(v);
    pairs.destinations.push_back(0);
  }
  ThreadPool pool(2);
  const CscGraph graph = build_csc(kLeaves + 1, pairs.list(), {}, pool).structure;
  EXPECT_EQ(graph.indptr[1], kLeaves);
  EXPECT_TRUE(std::is_sorted(graph.indices.begin(), graph.indices.end()));
  EXPECT_EQ(graph.edge_ids.front(), kLeaves - 1);
}

TEST(BuildCscErrors, NameTheEdgeAndTheRange) {
  ThreadPool pool(1);
  const Pairs above{.sources = {0, 7}, .destinations = {1, 0}};
  test::expect_error([&] { build_csc(7, above.list(), {}, pool); },
                     {"edges.npy", "edge 1", "7 to 0", "[0, 7)"});
  const Pairs negative{.sources = {0}, .destinations = {-1}};
  test::expect_error([&] { build_csc(7, negative.list(), {}, pool); }, {"edge 0", "-1"});
}

bool naive_symmetric(const CscGraph& graph) {
  std::set<std::pair<NodeId, NodeId>> edges;
  for (NodeId v = 0; v < graph.num_nodes; ++v)
    for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v) + 1]; ++e)
      edges.insert({graph.indices[at(e)], v});
  return std::all_of(edges.begin(), edges.end(), [&](const auto& edge) {
    return edges.contains({edge.second, edge.first});
  });
}

TEST(Symmetry, AgreesWithANaiveReference) {
  int symmetric = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const auto nodes = static_cast<Count>(2 + seed % 7);
    Pairs pairs =
        random_pairs({.nodes = nodes, .edges = static_cast<Count>(seed % 12), .below = nodes, .seed = seed});
    if (seed % 2 == 0)  // half of the graphs almost symmetric: perhaps one edge lacks its opposite
      for (std::size_t i = seed % 4 == 0 ? 0 : 1, count = pairs.sources.size(); i < count; ++i) {
        pairs.sources.push_back(pairs.destinations[i]);
        pairs.destinations.push_back(pairs.sources[i]);
      }
    ThreadPool pool(static_cast<int>(1 + seed % 3));
    const CscGraph graph = build_csc(nodes, pairs.list(), {.duplicates = EdgePolicy::keep}, pool).structure;
    symmetric += naive_symmetric(graph);
    EXPECT_EQ(is_symmetric(graph, pool), naive_symmetric(graph)) << "seed " << seed;
  }
  EXPECT_GT(symmetric, 50);
  EXPECT_LT(symmetric, 250);
}

/// All edges end in `heads` nodes of 100,000.
Pairs skewed_pairs(Count edges, Count heads) {
  Pairs pairs;
  for (Count e = 0; e < edges; ++e) {
    pairs.sources.push_back(e % 100'000);
    pairs.destinations.push_back(e % heads);
  }
  return pairs;
}

// While a bucket is sorted, its edges are there twice: nearly all of them where a hub has most.
TEST(BuildCsc, CountsTheLargestBucketsAmongTheMemoryItNeeds) {
  constexpr Count kEdges = 1'000'000, kNodes = 100'000;
  constexpr std::int64_t kResult = kEdges * 20 + kNodes * 8, kSome = kResult / 5;
  ThreadPool pool(2);
  const Pairs even = skewed_pairs(kEdges, kNodes), skewed = skewed_pairs(kEdges, 1);
  build_csc(kNodes, even.list(), {.memory_bytes = kResult + kSome}, pool);
  test::expect_error<OutOfMemory>(
      [&] { build_csc(kNodes, skewed.list(), {.memory_bytes = kResult + kSome}, pool); },
      {"edges.npy", "1,000,000 edges", "to sort with 2 threads", "--threads"});
  build_csc(kNodes, skewed.list(), {.memory_bytes = kResult + 17 * kEdges}, pool);
}

}  // namespace
}  // namespace strata::graph
