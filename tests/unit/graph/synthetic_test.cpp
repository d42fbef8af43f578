// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "build_csc.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/files.hpp"
#include "support/expect_error.hpp"

namespace strata::graph {
namespace {

using test::expect_error;

Graph make(const std::string& settings, ReadOptions options = {}) {
  return read_graph("synthetic:" + settings, options);
}

template <typename T>
void add(Hasher& hasher, const std::vector<T>& values) {
  hasher.update(values.data(), values.size() * sizeof(T));
}

std::uint64_t fingerprint(const Graph& graph) {
  Hasher hasher;
  add(hasher, graph.structure.indptr);
  add(hasher, graph.structure.indices);
  add(hasher, graph.structure.edge_ids);
  add(hasher, graph.structure.weights);
  add(hasher, graph.labels);
  add(hasher, graph.splits.train);
  add(hasher, graph.splits.valid);
  add(hasher, graph.splits.test);
  hasher.update(graph.features.data, at(graph.features.rows) * graph.features.row_bytes());
  return hasher.digest();
}

/// What every reader promises of a graph.
void expect_well_formed(const Graph& graph) {
  const CscGraph& structure = graph.structure;
  ASSERT_EQ(static_cast<Count>(structure.indptr.size()), structure.num_nodes + 1);
  ASSERT_EQ(structure.indptr.back(), structure.num_edges());
  for (std::size_t v = 0; v + 1 < structure.indptr.size(); ++v) {
    ASSERT_LE(structure.indptr[v], structure.indptr[v + 1]);
    ASSERT_TRUE(std::is_sorted(structure.indices.begin() + structure.indptr[v],
                               structure.indices.begin() + structure.indptr[v + 1]))
        << v;
  }
  for (const NodeId u : structure.indices) ASSERT_TRUE(u >= 0 && u < structure.num_nodes);
  ThreadPool pool(2);
  EXPECT_EQ(graph.undirected, is_symmetric(structure, pool));
  ASSERT_EQ(static_cast<Count>(graph.labels.size()), structure.num_nodes);
  for (const std::int32_t label : graph.labels) ASSERT_TRUE(label >= 0 && label < graph.num_classes);
  std::set<NodeId> all;
  for (const auto* split : {&graph.splits.train, &graph.splits.valid, &graph.splits.test}) {
    EXPECT_TRUE(std::is_sorted(split->begin(), split->end()));
    all.insert(split->begin(), split->end());
  }
  EXPECT_EQ(all.size(), graph.splits.train.size() + graph.splits.valid.size() + graph.splits.test.size());
  const CleaningReport& report = graph.cleaning;
  EXPECT_EQ(structure.num_edges(),
            report.edges_read - report.self_loops_removed - report.duplicates_removed + report.reverse_added);
}

class EveryKind : public testing::TestWithParam<const char*> {
 protected:
  std::string kind() const { return std::string("kind=") + GetParam(); }
};

TEST_P(EveryKind, IsWellFormedAtManySizes) {
  for (const char* const size :
       {"nodes=1", "nodes=2", "nodes=3", "nodes=17,classes=5", "nodes=1000", "nodes=5000"}) {
    SCOPED_TRACE(size);
    expect_well_formed(make(kind() + "," + size));
  }
}

TEST_P(EveryKind, DependsOnTheSeedAndNotOnThreads) {
  const std::string settings = kind() + ",nodes=20000,seed=";
  const std::uint64_t expected = fingerprint(make(settings + "7", {.num_threads = 1}));
  EXPECT_EQ(fingerprint(make(settings + "7", {.num_threads = 2})), expected);
  EXPECT_EQ(fingerprint(make(settings + "7", {.num_threads = 3})), expected);
  EXPECT_NE(fingerprint(make(settings + "8")), expected);
}

TEST_P(EveryKind, WeighsEdgesByTheirEnds) {
  const std::string settings = kind() + ",nodes=3000,features=0,seed=4";
  const Graph plain = make(settings);
  EXPECT_TRUE(plain.structure.weights.empty());
  for (const char* const weights : {"uniform", "lognormal", "half-normal"}) {
    SCOPED_TRACE(weights);
    const std::string weighted = settings + ",weights=" + weights;
    const Graph graph = make(weighted);
    const CscGraph& csc = graph.structure;
    EXPECT_EQ(csc.indices, plain.structure.indices);
    ASSERT_EQ(csc.weights.size(), csc.indices.size());
    std::map<std::pair<NodeId, NodeId>, float> of_pair;
    for (NodeId v = 0; v < csc.num_nodes; ++v)
      for (auto e = at(csc.indptr[at(v)]); e < at(csc.indptr[at(v) + 1]); ++e)
        ASSERT_EQ(of_pair.emplace(std::minmax(v, csc.indices[e]), csc.weights[e]).first->second,
                  csc.weights[e]);
    std::set<float> distinct(csc.weights.begin(), csc.weights.end());
    EXPECT_GT(distinct.size(), of_pair.size() * 3 / 4);
    EXPECT_NE(make(kind() + ",nodes=3000,features=0,seed=5,weights=" + weights).structure.weights,
              csc.weights);
    EXPECT_EQ(make(weighted, {.num_threads = 1}).structure.weights, csc.weights);
  }
}

TEST(SyntheticWeights, AreDistributedAsNamed) {
  const auto weights_of = [](const char* name) {
    return make(std::string("kind=lognormal,nodes=20000,features=0,weights=") + name).structure.weights;
  };
  double sum = 0, logs = 0, squares = 0;
  const std::vector<float> uniform = weights_of("uniform"), skewed = weights_of("lognormal");
  for (const float w : uniform) {
    ASSERT_TRUE(w > 0 && w <= 1) << w;
    sum += w;
  }
  EXPECT_NEAR(sum / static_cast<double>(uniform.size()), 0.5, 0.003);
  for (const float w : skewed) {
    ASSERT_TRUE(w >= 1.0f / 32 && w <= 32) << w;
    logs += std::log(w);
    squares += std::log(w) * std::log(w);
  }
  // 2^k (1 + f) lies above 2^(k + f), by 4 % on average.
  EXPECT_NEAR(logs / static_cast<double>(skewed.size()), 0.0397, 0.01);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(skewed.size())), 1, 0.02);
  const std::vector<float> half = weights_of("half-normal");
  double half_sum = 0, half_squares = 0;
  Count below_one = 0;
  for (const float w : half) {
    ASSERT_TRUE(w >= 0 && w < 3.5f) << w;
    half_sum += w;
    half_squares += w * w;
    below_one += w < 1;
  }
  // Of the sum of four uniforms; a normal distribution has 0.798 and 0.683.
  EXPECT_NEAR(half_sum / static_cast<double>(half.size()), 0.808, 0.004);
  EXPECT_NEAR(half_squares / static_cast<double>(half.size()), 1, 0.01);
  EXPECT_NEAR(static_cast<double>(below_one) / static_cast<double>(half.size()), 0.669, 0.004);
}

TEST_P(EveryKind, FeaturesAreFiniteAndOfUnitScale) {
  for (const char* const dtype : {"f32", "f16", "bf16"}) {
    const Graph graph = make(kind() + ",nodes=4000,features=16,dtype=" + dtype);
    ASSERT_EQ(name_of(graph.features.dtype), dtype);
    double sum = 0, squares = 0;
    const Count count = graph.features.rows * graph.features.cols;
    for (Count i = 0; i < count; ++i) {
      const auto* const bytes = graph.features.data + at(i) * size_of(graph.features.dtype);
      float x = 0;
      std::uint16_t half = 0;
      if (graph.features.dtype == DType::f32)
        std::memcpy(&x, bytes, 4);
      else
        std::memcpy(&half, bytes, 2),
            x = graph.features.dtype == DType::f16 ? f16_to_f32(half) : bf16_to_f32(half);
      sum += x;
      squares += static_cast<double>(x) * x;
    }
    EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.1) << dtype;
    EXPECT_NEAR(squares / static_cast<double>(count), 1, 0.15) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind, testing::Values("sbm", "rmat", "lognormal", "grid"));

TEST(Synthetic, DefaultsWorkAlone) {
  const Graph graph = make("");
  EXPECT_EQ(graph.name, "synthetic-sbm");
  EXPECT_EQ(graph.num_nodes(), 10'000);
  EXPECT_EQ(graph.num_classes, 8);
  EXPECT_EQ(graph.splits.train.size(), 6000u);
  EXPECT_EQ(graph.splits.valid.size(), 2000u);
  EXPECT_EQ(graph.splits.test.size(), 2000u);
}

TEST(Synthetic, SplitsAreNumbersOrShares) {
  const Graph graph = make("nodes=1000,train=0.25,valid=7,test=1.0e-1");
  EXPECT_EQ(graph.splits.train.size(), 250u);
  EXPECT_EQ(graph.splits.valid.size(), 7u);
  EXPECT_EQ(graph.splits.test.size(), 100u);
}

/// Share of the nodes whose nearest class mean, of `rows`, is their own.
double nearest_mean_accuracy(const Graph& graph, const std::vector<float>& rows) {
  const auto cols = at(graph.features.cols), classes = at(graph.num_classes);
  std::vector<double> means(classes * cols, 0), sizes(classes, 0);
  for (std::size_t v = 0; v < graph.labels.size(); ++v) {
    const auto label = at(graph.labels[v]);
    ++sizes[label];
    for (std::size_t c = 0; c < cols; ++c) means[label * cols + c] += rows[v * cols + c];
  }
  std::size_t right = 0;
  for (std::size_t v = 0; v < graph.labels.size(); ++v) {
    std::vector<double> distances(classes, 0);
    for (std::size_t k = 0; k < classes; ++k)
      for (std::size_t c = 0; c < cols; ++c)
        distances[k] += std::pow(rows[v * cols + c] - means[k * cols + c] / sizes[k], 2);
    right += std::min_element(distances.begin(), distances.end()) - distances.begin() == graph.labels[v];
  }
  return static_cast<double>(right) / static_cast<double>(graph.labels.size());
}

TEST(Sbm, NeighborsTellMoreThanOwnFeatures) {
  const Graph graph = make("nodes=4000");
  const auto cols = at(graph.features.cols);
  std::vector<float> own(graph.labels.size() * cols);
  std::memcpy(own.data(), graph.features.data, own.size() * sizeof(float));
  std::vector<float> mean = own;
  std::size_t inside = 0;
  for (std::size_t v = 0; v < graph.labels.size(); ++v)
    for (Count e = graph.structure.indptr[v]; e < graph.structure.indptr[v + 1]; ++e) {
      const auto u = at(graph.structure.indices[at(e)]);
      inside += graph.labels[u] == graph.labels[v];
      for (std::size_t c = 0; c < cols; ++c) mean[v * cols + c] += own[u * cols + c];
    }
  for (std::size_t v = 0; v < graph.labels.size(); ++v)
    for (std::size_t c = 0; c < cols; ++c)
      mean[v * cols + c] /= static_cast<float>(graph.structure.indptr[v + 1] - graph.structure.indptr[v] + 1);
  EXPECT_NEAR(static_cast<double>(inside) / static_cast<double>(graph.structure.num_edges()), 0.8 + 0.2 / 8,
              0.02);
  const double alone = nearest_mean_accuracy(graph, own), together = nearest_mean_accuracy(graph, mean);
  EXPECT_GT(alone, 0.3);
  EXPECT_LT(alone, 0.75);
  EXPECT_GT(together, alone + 0.15);
}

TEST(Sbm, DegreesAreAPowerLawAndEdgesAsAsked) {
  const Graph graph = make("nodes=20000,degree=30,features=0");
  EXPECT_EQ(graph.cleaning.edges_read, 300'000);
  EXPECT_NEAR(static_cast<double>(graph.structure.num_edges()), 600'000, 0.05 * 600'000);
  Count most = 0;
  for (std::size_t v = 0; v < 20'000; ++v)
    most = std::max(most, graph.structure.indptr[v + 1] - graph.structure.indptr[v]);
  EXPECT_GT(most, 300);
  EXPECT_EQ(graph.features.cols, 0);
}

TEST(Rmat, LowIdsAreHubs) {
  const Graph graph = make("kind=rmat,nodes=3000,edges=60000");
  EXPECT_EQ(graph.cleaning.edges_read, 30'000);
  const auto& indptr = graph.structure.indptr;
  EXPECT_GT(indptr[300], graph.structure.num_edges() / 4);
  EXPECT_EQ(make("kind=rmat,nodes=3000,edges=60000", {.direction = ReadOptions::Direction::directed})
                .cleaning.edges_read,
            60'000);
}

TEST(Rmat, QuadrantsOutsideAreNotDrawnForever) {
  EXPECT_EQ(make("kind=rmat,nodes=5,edges=8,a=0,b=0,c=0").num_nodes(), 5);
}

TEST(Lognormal, DegreesAndNeighborsAreAsDescribed) {
  constexpr Count kNodes = 100'000, kEdges = 2'500'000;
  const Graph graph = make("kind=lognormal,nodes=100000,edges=2500000,features=0");
  const CscGraph& structure = graph.structure;
  EXPECT_EQ(structure.num_edges(), kEdges);
  EXPECT_EQ(graph.cleaning.duplicates, 0);
  EXPECT_TRUE(structure.edge_ids.empty());
  EXPECT_FALSE(graph.undirected);
  double sum = 0, squares = 0;
  for (std::size_t v = 0; v < kNodes; ++v) {
    const Count degree = structure.indptr[v + 1] - structure.indptr[v];
    ASSERT_GE(degree, 1);
    const double z =
        std::log(static_cast<double>(degree) - 0.5);  // one edge is given, the share is rounded down
    sum += z;
    squares += z * z;
  }
  const double mean = sum / kNodes, sigma = std::sqrt(squares / kNodes - mean * mean);
  EXPECT_NEAR(sigma, 1.2, 0.12);
  EXPECT_NEAR(mean, std::log(25.0) - 1.2 * 1.2 / 2, 0.15);
  // P(neighbor < q n) = sqrt(q) for floor(u^2 n); the lowest ids are taken once a list, hence the tolerance.
  for (const double q : {0.01, 0.1, 0.25, 0.5, 0.9}) {
    const auto below = std::count_if(structure.indices.begin(), structure.indices.end(),
                                     [&](NodeId u) { return static_cast<double>(u) < q * kNodes; });
    EXPECT_NEAR(static_cast<double>(below) / kEdges, std::sqrt(q), 0.01) << q;
  }
}

TEST(Lognormal, SelfLoopsGoWhereAsked) {
  const Graph graph = make("kind=lognormal,nodes=500,degree=100", {.self_loops = EdgePolicy::remove});
  EXPECT_GT(graph.cleaning.self_loops_removed, 0);
  for (std::size_t v = 0; v < 500; ++v)
    for (Count e = graph.structure.indptr[v]; e < graph.structure.indptr[v + 1]; ++e)
      ASSERT_NE(graph.structure.indices[at(e)], static_cast<NodeId>(v));
}

TEST(Lognormal, CompleteAndEmptyGraphs) {
  const Graph complete = make("kind=lognormal,nodes=40,edges=1600,sigma=0");
  EXPECT_EQ(complete.structure.num_edges(), 1600);
  EXPECT_EQ(make("kind=lognormal,nodes=40,edges=0").structure.num_edges(), 0);
  expect_well_formed(make("kind=lognormal,nodes=40,edges=1500,sigma=3"));
}

/// Lets the shares of several processes add up: exchange() of share i is called by a thread of its own.
class Exchange {
 public:
  explicit Exchange(std::size_t size) : own_(size), meeting_(static_cast<std::ptrdiff_t>(size)) {}

  NodeShare::Sums operator()(std::size_t rank, Count own) {
    own_[rank] = own;
    meeting_.arrive_and_wait();
    NodeShare::Sums sums;
    for (std::size_t r = 0; r < own_.size(); ++r) {
      if (r < rank) sums.before += own_[r];
      sums.total += own_[r];
    }
    meeting_.arrive_and_wait();
    return sums;
  }

 private:
  std::vector<Count> own_;
  std::barrier<> meeting_;
};

/// Calls work(share) for shares of [0, nodes) that end at `ends`, all at once.
template <typename Work>
void in_shares(const std::vector<NodeId>& ends, const Work& work) {
  Exchange exchange(ends.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    const NodeId first = rank == 0 ? 0 : ends[rank - 1];
    threads.emplace_back([&exchange, &work, first, rank, end = ends[rank]] {
      work(NodeShare{first, end - first, [&exchange, rank](Count own) { return exchange(rank, own); }});
    });
  }
}

TEST(LognormalIndptr, IsTheSameInShares) {
  for (const char* const settings :
       {"kind=lognormal,nodes=100000,degree=30", "kind=lognormal,nodes=40000,edges=20000,sigma=3",
        "kind=lognormal,nodes=40000,degree=30000,sigma=4"}) {
    const SyntheticSpec spec = parse_synthetic(settings);
    const auto entries = at(spec.nodes) + 1;
    ThreadPool pool(2);
    std::vector<Count> whole(entries, -1);
    lognormal_indptr(spec, NodeShare::all(spec.nodes), whole.data(), pool);
    EXPECT_TRUE(std::is_sorted(whole.begin(), whole.end()));
    EXPECT_EQ(whole.front(), 0);
    for (const std::vector<NodeId>& ends : {std::vector<NodeId>{17, spec.nodes},
                                            {0, 16384, 16385, spec.nodes},
                                            {spec.nodes / 2, spec.nodes, spec.nodes}}) {
      std::vector<Count> shared(entries, -1);
      in_shares(ends, [&](const NodeShare& share) {
        ThreadPool own_pool(1);
        lognormal_indptr(spec, share, shared.data(), own_pool);
      });
      EXPECT_EQ(shared, whole) << settings;
    }
  }
}

TEST(Grid, IsAGrid) {
  // 0 1 2
  // 3 4 5
  // 6
  const Graph graph = make("kind=grid,nodes=7,width=3,classes=3");
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 2, 5, 7, 10, 13, 15, 16}));
  EXPECT_EQ(graph.structure.indices, (std::vector<NodeId>{1, 3, 0, 2, 4, 1, 5, 0, 4, 6, 1, 3, 5, 2, 4, 3}));
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{0, 1, 0, 2, 3, 2, 4, 1, 5, 6, 3, 5, 7, 4, 7, 6}));
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(SyntheticPresets, HaveTheShapeOfTheirSets) {
  const Graph graph = make("products,nodes=24490,features=4");
  EXPECT_EQ(graph.name, "synthetic-lognormal");
  EXPECT_NEAR(static_cast<double>(graph.structure.num_edges()), 1'237'183, 1000);
  EXPECT_EQ(graph.num_classes, 47);
  EXPECT_EQ(graph.splits.train.size(), 1966u);
  EXPECT_EQ(graph.features.cols, 4);

  const SyntheticSpec reddit = parse_synthetic("reddit");
  EXPECT_EQ(reddit.nodes, 232'965);
  EXPECT_EQ(reddit.edges, 114'615'892);
  EXPECT_EQ(reddit.train + reddit.valid + reddit.test, reddit.nodes);
  const Graph small = make("reddit,nodes=2330,degree=50");
  EXPECT_EQ(small.num_classes, 41);
  EXPECT_EQ(small.features.cols, 602);
  EXPECT_EQ(small.splits.train.size(), 1534u);
  EXPECT_EQ(small.splits.valid.size(), 238u);
  EXPECT_EQ(small.splits.test.size(), 557u);
}

TEST(Synthetic, SpecsOfOneGraphHaveOneDigest) {
  const auto digest = [](const char* text) { return digest_of(parse_synthetic(text)); };
  const std::string first = digest("nodes=100,degree=20");
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(digest("edges=2000,kind=sbm,nodes=100,train=0.6"), first);
  for (const char* other :
       {"nodes=101,edges=2000", "nodes=100,degree=20,seed=1", "nodes=100,degree=20,noise=2",
        "nodes=100,degree=20,dtype=bf16", "nodes=100,degree=20,valid=0.1",
        "nodes=100,degree=20,weights=uniform", "nodes=100,degree=20,kind=rmat"})
    EXPECT_NE(digest(other), first) << other;
}

TEST(SyntheticErrors, NameTheKeyAndTheClosest) {
  expect_error([] { make("node=5"); }, {"unknown key 'node'", "'nodes'"});
  expect_error([] { make("kind=smb"); }, {"unknown kind 'smb'", "'sbm'"});
  expect_error([] { make("produts"); }, {"unknown preset 'produts'", "'products'"});
  expect_error([] { make("zzzzzzzz=1"); }, {"unknown key", "homophily"});
  expect_error([] { make("nodes=10,products"); }, {"'products' is not the first"});
  expect_error([] { make("nodes=abc"); }, {"nodes=abc", "integer"});
  expect_error([] { make("nodes=1e4"); }, {"nodes=1e4", "integer"});
  expect_error([] { make("nodes=0"); }, {"nodes=0", "[1, "});
  expect_error([] { make("nodes=5,nodes=6"); }, {"'nodes' is given twice"});
  expect_error([] { make("edges=5,degree=6"); }, {"edges and degree"});
  expect_error([] { make("nodes=10,edges=101"); }, {"101 edges among 10 nodes"});
  expect_error([] { make("noise=-1"); }, {"noise=-1"});
  expect_error([] { make("noise=nan"); }, {"noise=nan"});
  expect_error([] { make("dtype=f64"); }, {"unknown dtype 'f64'"});
  expect_error([] { make("train=0.9,valid=0.2"); }, {"train 9000 + valid 2000", "10000"});
  expect_error([] { make("train=20000"); }, {"train=20000"});
  expect_error([] { make("sigma=1"); }, {"'sigma' has no meaning for kind=sbm"});
  expect_error([] { make("kind=grid,degree=4"); }, {"'degree' has no meaning for kind=grid"});
  expect_error([] { make("kind=rmat,a=0.9,b=0.2"); }, {"above 1"});
  expect_error([] { make("classes=30,nodes=20"); }, {"classes=30"});
  expect_error([] { make("kind=lognormal", {.direction = ReadOptions::Direction::undirected}); },
               {"lognormal is directed"});
  expect_error([] { make("kind=grid", {.direction = ReadOptions::Direction::directed}); },
               {"grid is undirected"});
}

TEST(SyntheticErrors, RefuseWhatDoesNotFitBeforeTheyBegin) {
  expect_error<OutOfMemory>([] { make("kind=lognormal,nodes=1000000000000,edges=0"); },
                            {"1,000,000,000,000 nodes", "wanted", "free", "dtype=f16"});
}

}  // namespace
}  // namespace strata::graph
