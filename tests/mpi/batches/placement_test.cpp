// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "placing/read_counts.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/path_rates.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::batches {
namespace {

using enum tensor::Stratum;

using test::RunSetup;

/// A machine's share of a random graph of which it hosts the middle, in three parts. The same on all ranks.
class Structure {
 public:
  explicit Structure(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    indptr_.push_back(0);
    for (Count v = 0; v < kLocal; ++v) indptr_.push_back(indptr_.back() + static_cast<Count>(random() % 40));
    for (Count e = 0; e < indptr_.back(); ++e) {
      const auto a = random() % kNodes, b = random() % kNodes;
      indices_.push_back(static_cast<std::int32_t>(std::min(a, b)));
    }
  }

  store::GraphView view() const {
    return {
        {.device = {}, .num_nodes = kNodes, .first_node = kFirst, .num_local = kLocal, .original_ids = {}},
        {.indptr = indptr_.data(),
         .indices = {.data = indices_.data(), .size = std::ssize(indices_), .wide = false},
         .edge_ids = {}}};
  }
  const std::vector<Count>& part_rows() const { return part_rows_; }
  const std::vector<Count>& indptr() const { return indptr_; }
  const std::vector<std::int32_t>& indices() const { return indices_; }

  static constexpr Count kNodes = 3000, kFirst = 500, kLocal = 2000;

 private:
  std::vector<Count> indptr_, part_rows_ = {1200, 0, 800};
  std::vector<std::int32_t> indices_;
};

plan::NodeHeat heat_of(const comm::Machine& machine, const Structure& structure, Count max_entries) {
  constexpr int kFanouts[] = {10, -1};
  ThreadPool pool(1);
  const store::GraphView view = structure.view();
  plan::HeatCounter counter({.first_node = view.first_node,
                             .num_local = view.num_local,
                             .indptr = view.indptr,
                             .indices = view.indices,
                             .part_rows = structure.part_rows(),
                             .fanouts = kFanouts,
                             .max_entries = max_entries},
                            {machine.rank(), machine.size()}, pool);
  machine.communicator().all_reduce(counter.sums());
  return counter.heat();
}

TEST(AccessCounter, AddsUpTheBatchesOfAllRanksInTheOrderOfTheRows) {
  const RunSetup run(0);
  const Structure structure(3);
  const store::GraphView view = structure.view();
  AccessCounter counter(view, structure.part_rows());
  const int rank = run.machine.rank(), size = run.machine.size();
  std::vector<NodeId> first,
      second;  // rank r reads the rows r, r + size, ...; then the last, and half as many elsewhere
  for (Count row = rank; row < Structure::kLocal; row += size) first.push_back(Structure::kFirst + row);
  second = {Structure::kFirst + Structure::kLocal - 1};
  counter.add({.input_nodes = first, .lists = 10, .neighbors = 100, .nodes = 1000});
  counter.add({.input_nodes = second, .lists = 20, .neighbors = 200, .nodes = 3000});
  const auto mean = counter.mean(run.machine);
  ASSERT_TRUE(mean.has_value());
  EXPECT_EQ(mean->batches, 2 * size);
  EXPECT_DOUBLE_EQ(mean->accesses.lists, 15);
  EXPECT_DOUBLE_EQ(mean->accesses.neighbors, 150);
  EXPECT_DOUBLE_EQ(mean->accesses.nodes, 2000);
  const auto& curves = mean->accesses.features;
  ASSERT_EQ(curves.size(), 3u);
  const double batches = 2.0 * size;
  EXPECT_NEAR(curves[0].accesses_below(10), 10 / batches, 1e-9);
  EXPECT_NEAR(curves[0].accesses(), 1200 / batches, 1e-9);
  EXPECT_EQ(curves[1].rows(), 0);
  EXPECT_NEAR(curves[2].accesses(), (800 + size) / batches, 1e-9);
  EXPECT_THROW(AccessCounter(view, std::vector<Count>{1200, 799}), Error);
}

TEST(AccessCounter, TakesOtherMachinesToReadHereWhatIsReadThere) {
  const RunSetup run(0);
  const Structure structure(4);
  AccessCounter counter(structure.view(), structure.part_rows());
  const std::vector<NodeId> nodes = {0, Structure::kFirst - 1, Structure::kFirst,
                                     Structure::kFirst + Structure::kLocal};
  counter.add({.input_nodes = nodes});
  const auto mean = counter.mean(run.machine);
  ASSERT_TRUE(mean.has_value());
  EXPECT_DOUBLE_EQ(mean->accesses.features[0].accesses_below(1), 4);
  EXPECT_DOUBLE_EQ(mean->accesses.features[2].accesses(), 0);
}

TEST(AccessCounter, NeedNotHaveBatchesOfEveryRank) {
  const RunSetup run(0);
  const Structure structure(4);
  AccessCounter counter(structure.view(), structure.part_rows());
  EXPECT_FALSE(counter.mean(run.machine).has_value());
  std::vector<NodeId> nodes(Structure::kLocal);
  std::iota(nodes.begin(), nodes.end(), Structure::kFirst);
  if (run.machine.rank() == 0) counter.add({.input_nodes = nodes});
  const auto mean = counter.mean(run.machine);
  ASSERT_TRUE(mean.has_value());
  EXPECT_EQ(mean->batches, 1);
  EXPECT_DOUBLE_EQ(mean->accesses.features[2].accesses(), 800);
}

std::string text_of(const plan::MachinePlan& plan) {
  std::string text = fmt::format("{} {}", plan.gpu_bytes, plan.seconds.batch());
  for (const plan::TensorPlan& tensor : plan.tensors) {
    text += "\n" + tensor.name;
    for (const tensor::Segment& s : tensor.placement.segments) {
      text += fmt::format(" {}/{}/{}", s[replicated], s[striped], s[host]);
    }
  }
  return text;
}

// The rates are those of the cpu; that every rank measures others is what matters.
TEST(Plan, IsTheSameOnAllRanks) {
  for (const int ranks_per_machine : {0, 1}) {
    const RunSetup run(ranks_per_machine);
    const Structure structure(5);
    const plan::FeatureShape features{.cols = 25, .dtype = DType::f32, .part_rows = structure.part_rows()};
    const plan::RegionSizes sizes{.num_nodes = Structure::kNodes,
                                  .first_node = Structure::kFirst,
                                  .num_local = Structure::kLocal,
                                  .local_edges = structure.view().indices.size};
    const std::vector<std::int64_t> lengths = {4, 8, 100};
    const std::vector<tensor::MeasuredPaths> paths =
        tensor::measure_path_rates(run.machine, lengths, {.gpu_bytes = 1 << 20, .host_bytes = 1 << 20});
    ASSERT_EQ(paths.size(), lengths.size());
    std::vector<tensor::MeasuredPaths> measured;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_GT(paths[i].rates[replicated].bytes_per_second, 0);
      EXPECT_GT(paths[i].rates[host].bytes_per_second, 0);
      EXPECT_EQ(paths[i].rates[striped].bytes_per_second, 0);
      const tensor::PathRates& rates = paths[i].rates;
      const double local = rates[replicated].bytes_per_second;
      measured.push_back({lengths[i], {{replicated, {local}}, {striped, {local / 3}}, {host, {local / 20}}}});
    }
    const plan::BatchAccesses accesses =
        plan::expect_accesses(heat_of(run.machine, structure, 20000), {.seeds = 30, .fanouts = {10, -1}});
    const plan::MachinePlan plan = plan::plan_tensors(
        plan::graph_demands({.sizes = sizes, .features = features, .accesses = accesses, .rates = measured}),
        {.gpu_bytes = 100000, .num_gpus = 3, .stripe_rows = 4});
    EXPECT_GT(plan.tensors.back().placement.segments[0][striped], 0);
    for (const std::string& other : run.machine.communicator().all_gather(text_of(plan))) {
      EXPECT_EQ(other, text_of(plan));
    }
  }
}

store::MachineGraph load(const RunSetup& run, const store::LoadOptions& options) {
  std::unique_ptr<graph::Graph> graph;
  if (run.machine.rank() == 0) graph = test::random_dataset({.seed = 6});
  return take_graph(std::move(graph), run.machine, options);
}

TEST(PlacementOption, ForGpusIsRefusedWithoutThem) {
  const RunSetup run(0);
  if (test::world().size() != run.machine.size()) GTEST_SKIP() << "one machine only";
  for (const char* text : {"replicate", "stripe", "features=1/0/99"}) {
    test::expect_error([&] { load(run, {.placement = plan::parse_placement(text)}); },
                       {std::string("--placement ") + text, "no GPU"});
  }
}

TEST(PlacementOption, ForTheHostIsTaken) {
  const RunSetup run(0);
  if (test::world().size() != run.machine.size()) GTEST_SKIP() << "one machine only";
  store::MachineGraph graph = load(run, {.placement = plan::parse_placement("features=0/0/100")});
  for (const plan::PlanRow& row : graph.plan()) {
    EXPECT_EQ(row.stratum, "host");
    EXPECT_FALSE(row.expected.has_value());
  }
  graph.close(run.machine);
}

}  // namespace
}  // namespace strata::batches
