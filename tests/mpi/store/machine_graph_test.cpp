#include "strata/store/machine_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "strata/graph/part_writer.hpp"
#include "strata/util/error.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::store {
namespace {

using test::DatasetOptions;
using test::PartitionedDataset;
using test::RunSetup;
using testing::HasSubstr;

/// Parts of a random graph, written by the first rank of the run and read by all.
class Parts {
 public:
  Parts(
      const DatasetOptions& options, int num_parts,
      const std::function<void(graph::Graph&)>& change = [](graph::Graph&) {})
      : graph_(test::random_dataset(options)), directory_(test::common_folder("machine_graph")) {
    change(*graph_);
    if (test::world().rank() == 0) written_.emplace(*graph_, num_parts, directory_, options.seed);
    test::world().communicator().barrier();
  }
  ~Parts() { test::world().communicator().barrier(); }

  const graph::Graph& graph() const { return *graph_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::unique_ptr<graph::Graph> graph_;
  std::filesystem::path directory_;
  std::optional<PartitionedDataset> written_;
};

std::vector<NodeId> ids_of(const IdSpan& span) {
  std::vector<NodeId> ids;
  for (Count i = 0; i < span.size; ++i) ids.push_back(span[i]);
  return ids;
}

std::vector<float> rows_of(const MachineGraph& machine_graph) {
  const GraphView& view = machine_graph.host_view();
  std::vector<NodeId> ids(static_cast<std::size_t>(view.num_local));
  std::iota(ids.begin(), ids.end(), view.first_node);
  std::vector<float> rows(ids.size() * static_cast<std::size_t>(machine_graph.features().spec().cols));
  ThreadPool pool(1);
  machine_graph.features().gather({.data = ids.data(), .size = std::ssize(ids), .first = view.first_node},
                                  rows.data(), cuda::Stream(), pool);
  return rows;
}

std::vector<NodeId> originals(std::span<const NodeId> globals, const GraphView& view) {
  std::vector<NodeId> ids;
  for (const NodeId global : globals) ids.push_back(view.original_ids[global]);
  return ids;
}

/// Every list, edge id, label, degree and feature of the machine's nodes, through original ids.
void expect_local_nodes(const MachineGraph& loaded, const graph::Graph& graph, const LoadOptions& options) {
  const GraphView& view = loaded.host_view();
  const std::vector<float> features = test::features_as_floats(graph), rows = rows_of(loaded);
  const auto cols = static_cast<std::size_t>(graph.features.cols);
  for (Count row = 0; row < view.num_local; ++row) {
    const auto original = static_cast<std::size_t>(view.original_ids[view.first_node + row]);
    const auto begin = graph.structure.indptr[original], end = graph.structure.indptr[original + 1];
    ASSERT_EQ(view.indptr[row + 1] - view.indptr[row], end - begin);
    for (Count e = 0; e < end - begin; ++e) {
      const Count slot = view.indptr[row] + e;
      ASSERT_EQ(view.original_ids[view.indices[slot]],
                graph.structure.indices[static_cast<std::size_t>(begin + e)]);
      if (options.edge_ids) {
        ASSERT_EQ(view.edge_ids[slot], graph.structure.edge_ids[static_cast<std::size_t>(begin + e)]);
      }
      if (options.edge_weights) {
        ASSERT_EQ(view.weights[slot], graph.structure.weights[static_cast<std::size_t>(begin + e)]);
      }
    }
    const auto words = static_cast<std::size_t>(graph.label_words());
    for (std::size_t w = 0; !graph.labels.empty() && w < words; ++w) {
      ASSERT_EQ(loaded.labels()[static_cast<std::size_t>(row) * words + w],
                graph.labels[original * words + w]);
    }
    float sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += std::abs(features[original * cols + c]);
    const float scale = options.row_normalize && sum > 0 ? 1 / sum : 1;
    for (std::size_t c = 0; c < cols; ++c) {
      ASSERT_NEAR(rows[static_cast<std::size_t>(row) * cols + c], features[original * cols + c] * scale,
                  options.row_normalize ? 4e-3 : 0);
    }
  }
}

void expect_all_nodes(const MachineGraph& loaded, const graph::Graph& graph, const LoadOptions& options) {
  const GraphView& view = loaded.host_view();
  std::vector<NodeId> ids = ids_of(view.original_ids);
  ASSERT_EQ(std::ssize(ids), graph.num_nodes());
  EXPECT_EQ(view.in_degrees != nullptr, options.in_degrees);
  for (std::size_t v = 0; options.in_degrees && v < ids.size(); ++v) {
    const auto original = static_cast<std::size_t>(ids[v]);
    ASSERT_EQ(view.in_degrees[v], graph.structure.indptr[original + 1] - graph.structure.indptr[original]);
  }
  std::ranges::sort(ids);
  for (std::size_t v = 0; v < ids.size(); ++v) ASSERT_EQ(ids[v], static_cast<NodeId>(v));
}

void expect_splits(const MachineGraph& loaded, const graph::Graph& graph) {
  const GraphView& view = loaded.host_view();
  EXPECT_EQ(originals(loaded.train_nodes(), view), graph.splits.train);
  const auto expect_split = [&](std::span<const NodeId> nodes, const std::vector<NodeId>& all) {
    EXPECT_TRUE(std::ranges::is_sorted(nodes));
    std::vector<NodeId> mine = originals(nodes, view), expected;
    std::ranges::sort(mine);
    std::vector<bool> local(static_cast<std::size_t>(view.num_nodes));
    for (Count v = 0; v < view.num_local; ++v)
      local[static_cast<std::size_t>(view.original_ids[view.first_node + v])] = true;
    std::ranges::copy_if(all, std::back_inserter(expected),
                         [&](NodeId v) { return local[static_cast<std::size_t>(v)]; });
    EXPECT_EQ(mine, expected);
  };
  expect_split(loaded.valid_nodes(), graph.splits.valid);
  expect_split(loaded.test_nodes(), graph.splits.test);
}

void expect_is(const MachineGraph& loaded, const graph::Graph& graph, const LoadOptions& options) {
  EXPECT_EQ(loaded.manifest().book.num_nodes(), graph.num_nodes());
  EXPECT_EQ(loaded.host_view().num_nodes, graph.num_nodes());
  EXPECT_EQ(loaded.host_view().edge_ids.size, options.edge_ids ? loaded.host_view().indices.size : 0);
  EXPECT_EQ(loaded.host_view().weights != nullptr, options.edge_weights);
  EXPECT_EQ(loaded.labels().empty(), graph.labels.empty());
  expect_all_nodes(loaded, graph, options);
  expect_local_nodes(loaded, graph, options);
  expect_splits(loaded, graph);
}

struct LoadCase {
  int num_parts, ranks_per_machine;
  DatasetOptions dataset;
  LoadOptions options;
};

void expect_loads(const LoadCase& c) {
  SCOPED_TRACE(testing::Message() << c.num_parts << " parts, " << c.ranks_per_machine
                                  << " ranks a machine, seed " << c.dataset.seed);
  const RunSetup run(c.ranks_per_machine);
  const Parts parts(c.dataset, c.num_parts);
  MachineGraph loaded = MachineGraph::load(parts.directory(), test::world().communicator(), run.topology,
                                           run.machine, c.options);
  expect_is(loaded, parts.graph(), c.options);
  const std::span<const NodeId> offsets = loaded.machine_offsets();
  ASSERT_EQ(std::ssize(offsets), run.topology.num_machines() + 1);
  EXPECT_EQ(loaded.host_view().first_node, offsets[static_cast<std::size_t>(run.machine.index())]);
  for (NodeId v = 0; v < loaded.host_view().num_nodes; ++v) {
    ASSERT_EQ(loaded.machine_of(v) == run.machine.index(), loaded.host_view().owns(v));
  }
  loaded.close(run.machine);
}

TEST(Load, ReadsPartsOnOneMachine) {
  std::uint64_t seed = 10;
  for (const int parts : {1, 3, 5}) {
    expect_loads({parts, 0, {.seed = ++seed}, {.edge_ids = true, .edge_weights = true, .in_degrees = true}});
  }
}

TEST(Load, ReadsPartsOnVirtualMachines) {
  std::uint64_t seed = 20;
  for (const int parts : {3, 5}) {
    expect_loads({parts, 1, {.seed = ++seed}, {.edge_ids = true, .in_degrees = true}});
  }
}

/// Shares of several chunks and tasks, that begin and end within parts.
TEST(Load, ReadsPartsLongerThanAChunk) {
  const DatasetOptions dataset{.num_nodes = 60'000, .num_edges = 1'300'000, .feature_cols = 33, .seed = 23};
  for (const int ranks_per_machine : {0, 1}) {
    expect_loads(
        {3, ranks_per_machine, dataset, {.edge_ids = true, .edge_weights = true, .in_degrees = true}});
  }
}

TEST(Load, LeavesOutWhatIsNotAskedFor) { expect_loads({3, 0, {.seed = 31}, {}}); }

TEST(Load, NormalizesRows) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    expect_loads({3, 0, {.feature_dtype = dtype, .seed = 32}, {.row_normalize = true}});
  }
}

TEST(Load, ReadsHalfFeaturesAsTheyAre) {
  expect_loads({4, 0, {.feature_cols = 33, .feature_dtype = DType::f16, .seed = 33}, {}});
  expect_loads({4, 0, {.feature_cols = 33, .feature_dtype = DType::bf16, .seed = 34}, {}});
}

TEST(Load, NeedsNoFeaturesLabelsOrEdges) {
  expect_loads(
      {3, 0, {.num_edges = 0, .feature_cols = 0, .with_labels = false, .seed = 35}, {.in_degrees = true}});
}

/// How often the nodes of other machines occur in the lists of this machine's nodes.
std::map<NodeId, Count> halo_of(const GraphView& view) {
  std::map<NodeId, Count> halo;
  for (Count e = view.indptr[0]; e < view.indptr[view.num_local]; ++e)
    if (!view.owns(view.indices[e])) ++halo[view.indices[e]];
  return halo;
}

void expect_list(const GraphView& view, Count row, NodeId original, const graph::Graph& graph) {
  const auto begin = graph.structure.indptr[static_cast<std::size_t>(original)],
             end = graph.structure.indptr[static_cast<std::size_t>(original) + 1];
  ASSERT_EQ(view.indptr[row + 1] - view.indptr[row], end - begin);
  for (Count e = 0; e < end - begin; ++e) {
    const Count slot = view.indptr[row] + e;
    ASSERT_EQ(view.original_ids[view.indices[slot]],
              graph.structure.indices[static_cast<std::size_t>(begin + e)]);
    if (view.edge_ids.size > 0) {
      ASSERT_EQ(view.edge_ids[slot], graph.structure.edge_ids[static_cast<std::size_t>(begin + e)]);
    }
  }
}

TEST(Load, KeepsTheStructureOfAllNodesIfAsked) {
  std::uint64_t seed = 70;
  for (const Replication replication : {Replication::on, Replication::automatic}) {
    for (const bool more : {false, true}) {
      const LoadOptions options{.edge_ids = more, .in_degrees = more, .replication = replication};
      expect_loads({4, 1, {.seed = ++seed}, options});
      const RunSetup run(1);
      const Parts parts({.seed = seed}, 4);
      MachineGraph loaded = MachineGraph::load(parts.directory(), test::world().communicator(), run.topology,
                                               run.machine, options);
      EXPECT_EQ(loaded.is_replicated(), test::world().size() > 1);
      const GraphView& all = loaded.view();
      ASSERT_EQ(all.first_node, 0);
      ASSERT_EQ(all.num_local, all.num_nodes);
      for (NodeId v = 0; v < all.num_nodes; ++v) expect_list(all, v, all.original_ids[v], parts.graph());
      loaded.close(run.machine);
    }
  }
}

TEST(Load, KeepsWhatOfOtherMachinesOccursMostOften) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines";
  for (const std::int64_t budget : {1 << 24, 20000, 1}) {
    const RunSetup run(1);
    const Parts parts({.num_nodes = 3000, .num_edges = 20000, .feature_cols = 11, .seed = 80}, 3);
    MachineGraph loaded = MachineGraph::load(parts.directory(), test::world().communicator(), run.topology,
                                             run.machine, {.edge_ids = true, .halo_bytes = budget});
    const GraphView& view = loaded.host_view();
    const std::map<NodeId, Count> halo = halo_of(view);
    std::vector<NodeId> all;
    for (const auto& [node, count] : halo) all.push_back(node);

    // Lists, each behind its alias.
    Count list_bytes = 0, coldest = 1 << 30, hottest_left = 0;
    for (const NodeId node : all) {
      const Count slot = loaded.halo_lists() ? loaded.halo_lists()->index.find(node) : -1;
      if (slot < 0) {
        hottest_left = std::max(hottest_left, halo.at(node));
        continue;
      }
      const GraphView& lists = loaded.halo_lists()->view;
      coldest = std::min(coldest, halo.at(node));
      list_bytes += (lists.indptr[slot + 1] - lists.indptr[slot]) * 12;
      ASSERT_EQ(lists.original_ids[lists.first_node + slot], view.original_ids[node]);
      expect_list(lists, slot, view.original_ids[node], parts.graph());
    }
    EXPECT_LE(list_bytes, budget / 4);
    EXPECT_LE(hottest_left, coldest);

    // Rows, behind those of the machine, the hottest first.
    const std::vector<float> features = test::features_as_floats(parts.graph());
    ThreadPool pool(1);
    Count kept_rows = 0, coldest_row = 1 << 30, hottest_row_left = 0;
    std::map<Count, Count> occurrences_by_slot;
    for (const NodeId node : all) {
      const Count slot = loaded.halo_rows() ? loaded.halo_rows()->find(node) : -1;
      if (slot < 0) {
        hottest_row_left = std::max(hottest_row_left, halo.at(node));
        continue;
      }
      ++kept_rows;
      coldest_row = std::min(coldest_row, halo.at(node));
      occurrences_by_slot[slot] = halo.at(node);
      std::vector<float> row(11);
      const NodeId id = view.num_local + slot;
      loaded.features().gather({.data = &id, .size = 1}, row.data(), cuda::Stream(), pool);
      const auto original = static_cast<std::size_t>(view.original_ids[node]);
      for (std::size_t c = 0; c < 11; ++c) ASSERT_EQ(row[c], features[original * 11 + c]);
    }
    EXPECT_LE(hottest_row_left, coldest_row);
    EXPECT_EQ(loaded.features().spec().rows, view.num_local + kept_rows);
    EXPECT_LE(kept_rows * 11 * 4, budget);
    for (auto [slot, count] : occurrences_by_slot) {
      if (slot > 0) {
        EXPECT_LT(count, 2 * occurrences_by_slot.at(slot - 1));
      }
    }
    if (budget == 1 << 24) {
      EXPECT_EQ(kept_rows, std::ssize(all));
      EXPECT_EQ(hottest_left, 0);
    } else if (budget == 20000) {
      EXPECT_GT(kept_rows, 50);
      EXPECT_LT(kept_rows, std::ssize(all));
    } else {
      EXPECT_EQ(kept_rows, 0);
      EXPECT_EQ(loaded.halo_lists(), nullptr);
    }
    loaded.close(run.machine);
  }
}

// Every machine generates its own parts, and of the others what its halo needs.
TEST(Load, GeneratesPlantedParts) {
  constexpr const char* kGraph =
      "planted:nodes=1200,degree=9,parts=3,within=0.7,features=6,classes=4,train=120,valid=60,test=30,seed=5";
  const graph::Manifest manifest = graph::read_manifest(kGraph);
  const RunSetup run(1);
  MachineGraph loaded = MachineGraph::load(kGraph, test::world().communicator(), run.topology, run.machine,
                                           {.in_degrees = true, .halo_bytes = 20000});
  const GraphView& view = loaded.host_view();
  EXPECT_EQ(view.num_nodes, 1200);
  ThreadPool pool(1);
  for (int p = 0; p < 3; ++p) {
    const graph::PartReader part = graph::PartReader::open(kGraph, manifest, p);
    std::vector<Count> indptr(static_cast<std::size_t>(part.num_inner()) + 1);
    part.read_indptr(0, std::ssize(indptr), indptr.data());
    std::vector<NodeId> indices(static_cast<std::size_t>(part.num_edges()));
    part.read_indices(0, std::ssize(indices), indices.data());
    for (Count row = 0; row < part.num_inner(); ++row) {
      const NodeId node = manifest.book.global_of(p, row);
      const Count begin = indptr[static_cast<std::size_t>(row)],
                  end = indptr[static_cast<std::size_t>(row) + 1];
      ASSERT_EQ(view.original_ids[node], node);
      ASSERT_EQ(view.in_degrees[node], end - begin);
      const Count slot = loaded.halo_rows() ? loaded.halo_rows()->find(node) : -1;
      if (!view.owns(node) && slot < 0) continue;
      const NodeId table_row = view.owns(node) ? node - view.first_node : view.num_local + slot;
      std::vector<float> here(6), there(6);
      loaded.features().gather({.data = &table_row, .size = 1}, here.data(), cuda::Stream(), pool);
      part.read_features(row, 1, there.data());
      ASSERT_EQ(here, there);
      if (!view.owns(node)) continue;
      const Count first = view.indptr[node - view.first_node];
      ASSERT_EQ(view.indptr[node - view.first_node + 1] - first, end - begin);
      for (Count e = 0; e < end - begin; ++e)
        ASSERT_EQ(view.indices[first + e], indices[static_cast<std::size_t>(begin + e)]);
    }
  }
  EXPECT_EQ(std::ssize(loaded.train_nodes()), 120);
  EXPECT_EQ(loaded.halo_rows() != nullptr, test::world().size() > 1);
  loaded.close(run.machine);
}

TEST(Load, PlansInRowsAndBytes) {
  const RunSetup run(0);
  const Parts parts({.num_nodes = 100, .feature_cols = 7, .seed = 36}, 2);
  MachineGraph loaded =
      MachineGraph::load(parts.directory(), test::world().communicator(), run.topology, run.machine, {});
  const auto& plan = loaded.plan();
  const auto features = std::ranges::find(plan, "features", &MachineGraph::PlanRow::tensor);
  ASSERT_NE(features, plan.end());
  EXPECT_EQ(features->stratum, "host");
  EXPECT_EQ(features->rows, 100);
  EXPECT_EQ(features->bytes, 100 * 7 * 4);
  loaded.close(run.machine);
}

std::string refusal_of(const std::filesystem::path& directory, int ranks_per_machine = 0,
                       const LoadOptions& options = {.in_degrees = true}) {
  const RunSetup run(ranks_per_machine);
  const comm::Communicator& world = test::world().communicator();
  try {
    world.together([&] { MachineGraph::load(directory, world, run.topology, run.machine, options); });
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted, or refused otherwise";
}

TEST(Load, RefusesFeaturesThatAreNotNumbers) {
  for (const int ranks_per_machine : {0, 1}) {
    const Parts parts({.num_nodes = 300, .seed = 40}, 3, [](graph::Graph& graph) {
      auto* values = const_cast<float*>(reinterpret_cast<const float*>(graph.features.data));
      values[250 * 7 + 3] = std::nanf("");
    });
    const std::string message = refusal_of(parts.directory(), ranks_per_machine);
    EXPECT_THAT(message, HasSubstr(parts.directory().string()));
    EXPECT_THAT(message, testing::ContainsRegex("row [0-9]+: feature 3 is NaN"));
  }
}

TEST(Load, RefusesLabelsOutOfRange) {
  const Parts parts({.seed = 41}, 2, [](graph::Graph& graph) { graph.labels[77] = 5; });
  EXPECT_THAT(refusal_of(parts.directory()), HasSubstr("has label 5, but classes are 0 to 4"));
}

TEST(Load, RefusesLabelsThatAreNoSets) {
  const Parts parts({.num_classes = 40, .label_sets = true, .seed = 43}, 2, [](graph::Graph& graph) {
    graph.labels[2 * 77 + 1] = 1 << 9;  // bit 41
  });
  EXPECT_THAT(refusal_of(parts.directory()), HasSubstr("is no set of 40 classes"));
}

TEST(Load, GivesSetsOfClasses) {
  for (const int ranks_per_machine : {0, 1})
    expect_loads({.num_parts = 3,
                  .ranks_per_machine = ranks_per_machine,
                  .dataset = {.num_classes = 40, .label_sets = true, .seed = 44},
                  .options = {}});
}

TEST(Load, RefusesWhatIsNoPartitionDirectory) {
  EXPECT_THAT(refusal_of("/nonexistent"), HasSubstr("/nonexistent"));
}

TEST(Load, RefusesMoreMachinesThanParts) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const Parts parts({.seed = 42}, 1);
  EXPECT_THAT(refusal_of(parts.directory(), 1), HasSubstr("machines"));
}

/// A directory with one part of three nodes and four edges that `damage` changed.
std::string refusal_of_damaged(const std::function<void(graph::PartData&)>& damage,
                               const LoadOptions& options = {.in_degrees = true}) {
  const std::filesystem::path directory = test::common_folder("damaged");
  if (test::world().rank() == 0) {
    graph::PartData data{.part = 0,
                         .indptr = {0, 1, 2, 4},
                         .indices = {1, 2, 0, 1},
                         .edge_ids = {0, 1, 2, 3},
                         .original_ids = {2, 0, 1},
                         .labels = {},
                         .train = {{1, 0}, {0, 1}},
                         .valid = {},
                         .test = {}};
    damage(data);
    graph::PartitionRecord record;
    record.manifest = {.name = "tiny",
                       .build_id = "1",
                       .book = graph::PartitionBook({0, 3}),
                       .num_edges = 4,
                       .has_edge_weights = !data.weights.empty(),
                       .num_train = 2};
    std::filesystem::create_directories(directory);
    record.parts = {graph::write_part(directory, record.manifest, data, {})};
    graph::write_manifest(directory, record);
  }
  test::world().communicator().barrier();
  std::string refusal = refusal_of(directory, 0, options);
  test::world().communicator().barrier();
  if (test::world().rank() == 0) std::filesystem::remove_all(directory);
  return refusal;
}

TEST(Load, RefusesDamagedStructure) {
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indices[2] = 3; }),
              HasSubstr("indices[2] is 3, but nodes are 0 to 2"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indices[1] = -1; }), HasSubstr("indices[1] is -1"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indptr[1] = 3; }),
              HasSubstr("indptr gives row 1 -1 edges"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indptr[0] = 1; }), HasSubstr("indptr"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indptr[3] = 5; }), HasSubstr("indptr"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.original_ids[1] = 3; }),
              HasSubstr("row 1 has the original id 3"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) {
                data.train.ranks = {1, 1};
              }),
              HasSubstr("training node 0 of 2"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.train.ranks = {0, 2}; }), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) { data.indices[3] = (NodeId{1} << 32) + 1; }),
              HasSubstr("indices[3] is 4294967297"));
  EXPECT_THAT(refusal_of_damaged([](auto& data) {
                data.test = {{3}, {0}};
              }),
              HasSubstr("a split names row 3 of 3"));
}

TEST(Load, RefusesWeightsThatAreNotThere) {
  EXPECT_THAT(refusal_of_damaged([](auto&) {}, {.edge_weights = true}), HasSubstr("has no edge weights"));
  EXPECT_THAT(refusal_of_damaged(
                  [](auto& data) {
                    data.weights = {1, 0, -3, 1};
                  },
                  {.edge_weights = true}),
              HasSubstr("weight[2] is -3"));
}

TEST(FromGraph, TakesAGraphInItsOwnOrder) {
  std::uint64_t seed = 50;
  for (const LoadOptions& options : {LoadOptions{.edge_ids = true, .edge_weights = true, .in_degrees = true},
                                     LoadOptions{.row_normalize = true}}) {
    const RunSetup run(0);
    const DatasetOptions dataset{.num_nodes = 3000, .num_edges = 20000, .feature_cols = 11, .seed = ++seed};
    const auto expected = test::random_dataset(dataset);
    auto given = run.machine.rank() == 0 ? test::random_dataset(dataset) : nullptr;
    MachineGraph loaded = MachineGraph::from_graph(std::move(given), run.machine, options);
    expect_is(loaded, *expected, options);
    EXPECT_EQ(loaded.manifest().name, "random");
    EXPECT_EQ(loaded.manifest().num_classes, 5);
    EXPECT_EQ(loaded.manifest().num_edges, 20000);
    EXPECT_THAT(loaded.machine_offsets(), testing::ElementsAre(0, 3000));
    EXPECT_THAT(ids_of(loaded.host_view().original_ids), testing::Each(testing::Ge(0)));
    EXPECT_EQ(loaded.host_view().original_ids[2999], 2999);
    loaded.close(run.machine);
  }
}

TEST(FromGraph, LeavesATableThatOthersHoldAsItIs) {
  const RunSetup run(0);
  const DatasetOptions dataset{.num_nodes = 3000, .feature_cols = 100, .seed = 60};
  auto given = run.machine.rank() == 0 ? test::random_dataset(dataset) : nullptr;
  const graph::FeatureTable table = given ? given->features : graph::FeatureTable();
  const std::vector<float> before = given ? test::features_as_floats(*given) : std::vector<float>();
  MachineGraph loaded = MachineGraph::from_graph(std::move(given), run.machine, {.row_normalize = true});
  if (run.machine.rank() == 0) {
    EXPECT_TRUE(
        std::ranges::equal(before, std::span(reinterpret_cast<const float*>(table.data), before.size())));
  }
  loaded.close(run.machine);
}

TEST(FromGraph, NamesTheNodeOfABadFeature) {
  const RunSetup run(0);
  auto given = run.machine.rank() == 0 ? test::random_dataset({.seed = 61}) : nullptr;
  if (given)
    const_cast<float*>(reinterpret_cast<const float*>(given->features.data))[7 * 123] = std::nanf("");
  try {
    MachineGraph::from_graph(std::move(given), run.machine, {});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("graph \"random\": node 123: feature 0 is NaN"));
  }
}

TEST(FromGraph, WantsTheGraphOnTheFirstRankAlone) {
  const RunSetup run(0);
  EXPECT_ANY_THROW(MachineGraph::from_graph(nullptr, run.machine, {}));
}

}  // namespace
}  // namespace strata::store
