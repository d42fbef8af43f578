// SPDX-License-Identifier: Apache-2.0
// Parts of graphs of several types, on one machine and on several: their lists, and what is sampled of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "strata/batches/fetcher.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/partition/build.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/util/error.hpp"
#include "support/reference_sampler.hpp"
#include "support/run_setup.hpp"
#include "support/typed_graph.hpp"

namespace strata::store {
namespace {

using test::random_typed_graph;
using test::RunSetup;
using test::TypedGraphOptions;

constexpr int kParts = 4;
constexpr Count kBelowAuthorsAndVenues = 100;  // nodes

/// Parts that the first rank of the run writes.
class TypedParts {
 public:
  explicit TypedParts(const TypedGraphOptions& options, Count replicate_below = 0)
      : TypedParts(random_typed_graph(options), replicate_below) {}
  explicit TypedParts(graph::Graph graph, Count replicate_below = 0)
      : directory_(test::common_folder("typed_parts")) {
    if (test::world().rank() == 0) {
      partition::StopFlag stop;
      partition::build(std::move(graph),
                       {.output = directory_,
                        .assign = {.num_parts = kParts, .method = partition::PartitionMethod::random},
                        .num_threads = 1,
                        .replicate_below = replicate_below},
                       stop);
    }
    test::world().communicator().barrier();
  }
  ~TypedParts() {
    test::world().communicator().barrier();
    if (test::world().rank() == 0) std::filesystem::remove_all(directory_);
  }
  TypedParts(const TypedParts&) = delete;
  TypedParts& operator=(const TypedParts&) = delete;

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

/// (relation, source, edge id) of each entry of a list, by original ids.
using Entries = std::vector<std::tuple<RelationId, NodeId, EdgeId>>;

Entries entries_of(const GraphView& view, Count list) {
  const SublistsView& sublists = view.sublists;
  Entries entries;
  for (Count s = sublists.first[list]; s < sublists.first[list + 1]; ++s) {
    EXPECT_EQ(sublists.nodes[s], sublists.lists_before + list);
    for (Count e = sublists.begins[s]; e < sublists.begins[s + 1]; ++e)
      entries.emplace_back(sublists.relations[s], view.original_ids[view.indices[e]], view.edge_ids[e]);
  }
  EXPECT_EQ(std::ssize(entries), view.indptr[list + 1] - view.indptr[list]);
  return entries;
}

Entries entries_of(const graph::Graph& graph, NodeId node) {
  const graph::Sublists& sublists = graph.structure.sublists;
  Entries entries;
  for (Count s = sublists.first[at(node)]; s < sublists.first[at(node) + 1]; ++s)
    for (Count e = sublists.begins[at(s)]; e < sublists.begins[at(s) + 1]; ++e)
      entries.emplace_back(sublists.relations[at(s)], graph.structure.indices[at(e)],
                           graph.structure.edge_ids[at(e)]);
  return entries;
}

void expect_lists(const GraphView& view, const graph::Graph& graph) {
  EXPECT_EQ(view.sublists.num_relations, std::ssize(graph.types.edges));
  for (Count list = 0; list < view.num_local; ++list)
    ASSERT_EQ(entries_of(view, list), entries_of(graph, view.original_ids[view.first_node + list]));
}

TEST(TypedParts, AreLoadedWithTheListsOfEachRelation) {
  for (const int more_relations : {0, 40}) {
    const TypedGraphOptions options{.more_relations = more_relations};
    const graph::Graph graph = random_typed_graph(options);
    const TypedParts parts(options);
    for (const int ranks_per_machine : {0, 1})
      for (const plan::Replication replication : {plan::Replication::off, plan::Replication::on}) {
        const RunSetup run(ranks_per_machine);
        MachineGraph loaded =
            batches::load_parts(parts.directory(), run.ranks(),
                                {.edge_ids = true, .replication = replication, .halo_bytes = 1 << 20});
        EXPECT_EQ(loaded.manifest().types, graph.types);
        expect_lists(loaded.host_view(), graph);
        expect_lists(loaded.host_lists(), graph);
        loaded.close(run.machine);
      }
  }
}

/// The entries of a node's list that inductive training sees: papers alone have a split.
Entries seen_entries(const graph::Graph& graph, NodeId node) {
  const Range papers = graph::nodes_of_type(graph.types, 0, graph.num_nodes());
  const auto sees = [&](NodeId v) {
    return v < papers.first || v >= papers.end() || std::ranges::count(graph.splits.train, v) > 0;
  };
  Entries entries = entries_of(graph, node);
  std::erase_if(entries, [&](const auto& entry) { return !sees(node) || !sees(std::get<1>(entry)); });
  return entries;
}

TEST(TypedParts, HaveTheEdgesOfInductiveTrainingBesideAll) {
  const TypedGraphOptions options{.more_relations = 5, .weights = true};
  const graph::Graph graph = random_typed_graph(options);
  ASSERT_EQ(graph.types.nodes.front(), "paper");
  const TypedParts parts(options, kBelowAuthorsAndVenues);
  for (const int ranks_per_machine : {0, 1})
    for (const plan::Replication replication : {plan::Replication::off, plan::Replication::on}) {
      const RunSetup run(ranks_per_machine);
      MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(),
                                                {.edge_ids = true,
                                                 .edge_weights = true,
                                                 .train_edges_only = true,
                                                 .replication = replication,
                                                 .halo_bytes = 1 << 20});
      expect_lists(loaded.whole_host_view(), graph);
      const GraphView& view = loaded.host_view();
      EXPECT_LT(view.indices.size, loaded.whole_host_view().indices.size);
      for (Count list = 0; list < view.num_local; ++list)
        ASSERT_EQ(entries_of(view, list), seen_entries(graph, view.original_ids[view.first_node + list]));
      EXPECT_EQ(loaded.halo_lists(), nullptr);
      loaded.close(run.machine);
    }
}

/// Writes one part of two papers, of which the second cites the first, and an author, who writes both.
void write_forged(const std::filesystem::path& directory, std::vector<EdgeId> edge_ids) {
  std::filesystem::create_directory(directory);
  graph::PartitionRecord record;
  record.manifest = {.name = "forged",
                     .build_id = "00000000000000ff",
                     .book = graph::PartitionBook{{0, 3}},
                     .num_edges = 3,
                     .types = {.nodes = {"paper", "author"},
                               .edges = {{"paper", "cites", "paper"}, {"author", "writes", "paper"}},
                               .node_offsets = {0, 2, 3},
                               .edge_offsets = {0, 1, 3}}};
  graph::PartData part;
  part.indptr = {0, 0, 1, 3};
  part.indices = {0, 1, 0};
  part.edge_ids = std::move(edge_ids);
  part.original_ids = {2, 0, 1};
  record.parts = {graph::write_part(directory, record.manifest, part, {})};
  graph::write_manifest(directory, record);
}

TEST(TypedParts, AreRefusedWithEdgesOfNoRelationAndOutOfOrder) {
  const RunSetup run(0);
  const auto load = [&](const std::vector<EdgeId>& edge_ids) -> std::string {
    const std::filesystem::path directory = test::common_folder("forged_types");
    if (test::world().rank() == 0) write_forged(directory, edge_ids);
    test::world().communicator().barrier();
    std::string refusal = "loaded";
    try {
      batches::load_parts(directory, run.ranks(), {}).close(run.machine);
    } catch (const InputError& error) {
      refusal = error.what();
    }
    test::world().communicator().barrier();
    if (test::world().rank() == 0) std::filesystem::remove_all(directory);
    return refusal;
  };
  EXPECT_EQ(load({1, 0, 2}), "loaded");
  EXPECT_THAT(load({1, 0, 3}), testing::HasSubstr("list of row 2 has an edge of no relation"));
  EXPECT_THAT(load({1, 2, 0}), testing::HasSubstr("list of row 2 has an edge of no relation"));
}

/// (destination, source, edge) of a block by original ids.
using Picks = std::multiset<std::tuple<NodeId, NodeId, EdgeId>>;

std::vector<Picks> picks_of(const sampling::MiniBatch& batch, const cuda::Stream& stream) {
  std::vector<Picks> of_blocks;
  for (const test::PlainBlock& block : test::plain_blocks(batch, stream)) {
    Picks& picks = of_blocks.emplace_back();
    for (std::size_t dst = 0; dst < at(block.num_dst); ++dst)
      for (auto e = at(block.indptr[dst]); e < at(block.indptr[dst + 1]); ++e)
        picks.emplace(block.src_original_ids[dst], block.src_original_ids[at(block.indices[e])],
                      block.edge_ids[e]);
  }
  return of_blocks;
}

/// Samples the same nodes of the input, wherever they lie.
std::vector<Picks> sample(const MachineGraph& graph, const sampling::SamplerOptions& options,
                          const sampling::ExchangeContext& exchange, const std::vector<NodeId>& originals) {
  const GraphView& view = graph.view();
  const IdSpan original_ids = graph.host_view().original_ids;
  std::vector<NodeId> seeds(originals.size());
  for (NodeId v = 0; v < view.num_nodes; ++v) {
    const auto found = std::ranges::find(originals, original_ids[v]);
    if (found != originals.end()) seeds[at(found - originals.begin())] = v;
  }
  ThreadPool pool(2);
  const auto sampler = sampling::make_sampler(view, options, exchange, 1, pool);
  const cuda::Stream stream = view.device.is_cuda() ? cuda::Stream(view.device) : cuda::Stream();
  return picks_of(sampler->sample(seeds, {.seed = 3, .epoch = 1, .step = 4}, 0, stream), stream);
}

TEST(TypedParts, AreLoadedWithTheEdgesThatAreHeldOut) {
  const auto split = [] {
    graph::Graph graph = random_typed_graph({});
    ThreadPool pool(1);
    graph::split_edges(graph, {.valid = 0.1, .test = 0.2}, 3, pool);
    return graph;
  };
  const graph::Graph graph = split();
  const TypedParts parts(split());
  const auto expect = [](std::span<const std::int64_t> rows, const graph::HeldEdges& edges) {
    ASSERT_EQ(std::ssize(rows), 3 * edges.size());
    for (std::size_t i = 0; i < edges.edge_ids.size(); ++i) {
      ASSERT_EQ(rows[3 * i], edges.sources[i]);
      ASSERT_EQ(rows[3 * i + 1], edges.destinations[i]);
      ASSERT_EQ(rows[3 * i + 2], edges.edge_ids[i]);
    }
  };
  for (const int ranks_per_machine : {0, 1}) {
    const RunSetup run(ranks_per_machine);
    MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(), {.edge_ids = true});
    expect(loaded.held_edges(graph::Split::valid), graph.edge_splits.valid);
    expect(loaded.held_edges(graph::Split::test), graph.edge_splits.test);
    EXPECT_TRUE(loaded.held_edges(graph::Split::train).empty());
    expect_lists(loaded.host_view(), graph);
    loaded.close(run.machine);
  }
  const RunSetup alone(1);
  MachineGraph whole = batches::take_graph(std::make_unique<graph::Graph>(split()), alone.machine, {});
  expect(whole.held_edges(graph::Split::test), graph.edge_splits.test);
  whole.close(alone.machine);
}

TEST(TypedParts, AreSplitWhenTheyAreLoadedAsWhenTheyAreBuilt) {
  graph::EdgeSplit split{.seed = 3, .valid = 0.1, .test = 0.2, .relations = {}};
  graph::Graph graph = random_typed_graph({});
  split.relations.assign(graph.types.edges.size(), true);
  ThreadPool pool(1);
  graph::split_edges(graph, {.valid = 0.1, .test = 0.2}, 3, pool);
  ASSERT_GT(graph.edge_splits.valid.size(), 10);
  const TypedParts parts(TypedGraphOptions{});
  for (const int ranks_per_machine : {0, 1})
    for (const plan::Replication replication : {plan::Replication::off, plan::Replication::on}) {
      const RunSetup run(ranks_per_machine);
      MachineGraph loaded =
          batches::load_parts(parts.directory(), run.ranks(),
                              {.edge_ids = true, .edge_split = split, .replication = replication});
      for (const auto& [name, edges] : {std::pair{graph::Split::valid, graph.edge_splits.valid},
                                        {graph::Split::test, graph.edge_splits.test}}) {
        const auto rows = loaded.held_edges(name);
        ASSERT_EQ(std::ssize(rows), 3 * edges.size());
        for (std::size_t i = 0; i < edges.edge_ids.size(); ++i) {
          ASSERT_EQ(rows[3 * i], edges.sources[i]);
          ASSERT_EQ(rows[3 * i + 1], edges.destinations[i]);
          ASSERT_EQ(rows[3 * i + 2], edges.edge_ids[i]);
        }
      }
      expect_lists(loaded.host_view(), graph);
      expect_lists(loaded.host_lists(), graph);
      loaded.close(run.machine);
    }
}

/// The nodes of the types of authors and venues, and of no other, lie in a machine's halo.
void expect_small_types(const MachineGraph& loaded, const graph::Graph& graph) {
  const GraphView& view = loaded.host_view();
  const NodeId papers = graph.types.node_offsets[1];
  ThreadPool pool(1);
  for (NodeId node = 0; node < view.num_nodes; ++node) {
    const NodeId original = view.original_ids[node];
    const bool is_kept = original >= papers && !view.owns(node);
    const Count row = loaded.halo_rows() ? loaded.halo_rows()->find(node) : -1;
    const Count list = loaded.halo_lists() ? loaded.halo_lists()->index.find(node) : -1;
    ASSERT_EQ(row >= 0, is_kept) << original;
    ASSERT_EQ(list >= 0, is_kept && !loaded.is_replicated()) << original;
    if (list >= 0) {
      ASSERT_EQ(entries_of(loaded.halo_lists()->view, list), entries_of(graph, original));
    }
    if (!is_kept) continue;
    std::vector<float> values(at(graph.features.cols));
    const NodeId table_row = view.num_local + row;
    loaded.features().gather({.data = &table_row, .size = 1}, values.data(), cuda::Stream(), pool);
    const auto* const expected =
        reinterpret_cast<const float*>(graph.features.data) + original * graph.features.cols;
    ASSERT_EQ(values, std::vector<float>(expected, expected + values.size()));
  }
}

TEST(TypedParts, OfSmallTypesAreOnEveryMachineAndAskedForByNobody) {
  const TypedGraphOptions dataset{};
  const graph::Graph graph = random_typed_graph(dataset);
  const TypedParts parts(dataset, kBelowAuthorsAndVenues);
  const RunSetup run(1);
  for (const plan::Replication replication : {plan::Replication::off, plan::Replication::on}) {
    MachineGraph loaded =
        batches::load_parts(parts.directory(), run.ranks(), {.edge_ids = true, .replication = replication});
    expect_small_types(loaded, graph);
    comm::Communicator communicator = test::world().communicator().duplicate();
    ThreadPool pool(1);
    std::vector<NodeId> others;  // of these types, that other machines own
    const GraphView& view = loaded.host_view();
    for (NodeId node = 0; node < view.num_nodes; ++node)
      if (view.original_ids[node] >= graph.types.node_offsets[1] && !view.owns(node)) others.push_back(node);
    if (!loaded.is_replicated()) {
      const auto sampler = sampling::make_sampler(loaded.view(), {.fanouts = {3}, .max_seeds = 100},
                                                  {.communicator = &communicator,
                                                   .topology = &run.topology,
                                                   .machine_offsets = loaded.machine_offsets(),
                                                   .halo = loaded.halo_lists(),
                                                   .pool = &pool},
                                                  1, pool);
      sampler->sample(others, {.seed = 3}, 0, cuda::Stream());
      if (test::world().size() > 1) {
        EXPECT_GT(std::ssize(others), 0);
        EXPECT_EQ(sampler->report().remote_nodes.front(), std::ssize(others));
        EXPECT_EQ(sampler->report().cached_nodes.front(), std::ssize(others));
        EXPECT_EQ(sampler->report().traffic.front().request_bytes, 0);
      }
    }
    batches::RowFetcher fetcher(loaded.features(), {},
                                {.communicator = &communicator,
                                 .topology = &run.topology,
                                 .machine_offsets = loaded.machine_offsets(),
                                 .machine = run.machine.index(),
                                 .halo = loaded.halo_rows()},
                                pool);
    std::vector<float> rows(others.size() * at(graph.features.cols));
    fetcher.fetch({.ids = others.data(), .count = std::ssize(others)}, rows.data(), cuda::Stream());
    EXPECT_EQ(fetcher.report().cached_rows, std::ssize(others));
    EXPECT_EQ(fetcher.report().request_bytes, 0);
    communicator.close();
    loaded.close(run.machine);
  }
}

struct Method {
  sampling::Method method = sampling::Method::uniform;
  bool replace = false, new_nodes_only = false, by_relation = false;
};

sampling::SamplerOptions options_of(const Method& method, int num_relations) {
  sampling::SamplerOptions options{.fanouts = {3, 4, 2}, .max_seeds = 100, .edge_ids = true};
  options.method = method.method;
  options.replace = method.replace;
  options.new_nodes_only = method.new_nodes_only;
  if (!method.by_relation) return options;
  options.fanouts = {3, -1, 2};
  for (const int most : options.fanouts) {
    std::vector<int>& of_hop = options.relation_fanouts.emplace_back();
    for (int r = 0; r < num_relations; ++r) of_hop.push_back(r % 3 == 0 ? most : r % 3 == 1 ? 0 : 1);
  }
  return options;
}

const Method kMethods[] = {{},
                           {.replace = true},
                           {.method = sampling::Method::weighted},
                           {.method = sampling::Method::weighted, .replace = true},
                           {.method = sampling::Method::labor},
                           {.new_nodes_only = true},
                           {.by_relation = true},
                           {.new_nodes_only = true, .by_relation = true}};

/// GPUs get `gpu_bytes` of the graph, and read the rest in host memory.
void expect_batches_of_memory(comm::TopologyOptions::Compute compute, std::int64_t gpu_bytes) {
  const TypedGraphOptions dataset{.more_relations = 5, .weights = true};
  const TypedParts parts(dataset, kBelowAuthorsAndVenues);
  LoadOptions load{
      .edge_ids = true, .edge_weights = true, .gpu_budget_bytes = gpu_bytes, .halo_bytes = 1 << 20};
  const RunSetup alone(1);  // every rank has all of the graph
  MachineGraph whole =
      batches::take_graph(std::make_unique<graph::Graph>(random_typed_graph(dataset)), alone.machine, load);
  std::vector<NodeId> seeds;
  for (NodeId v = test::world().rank(); v < whole.view().num_nodes; v += 5) seeds.push_back(v);
  for (const auto& [ranks_per_machine, replication] :
       {std::pair(0, plan::Replication::off), {1, plan::Replication::off}, {1, plan::Replication::on}}) {
    load.replication = replication;
    const RunSetup run(ranks_per_machine, compute);
    MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(), load);
    comm::Communicator communicator = test::world().communicator().duplicate();
    ThreadPool pool(1);
    for (const Method& method : kMethods) {
      const auto options = options_of(method, whole.view().sublists.num_relations);
      sampling::ExchangeContext exchange;
      if (!loaded.is_replicated())
        exchange = {.communicator = &communicator,
                    .topology = &run.topology,
                    .machine_offsets = loaded.machine_offsets(),
                    .halo = loaded.halo_lists(),
                    .pool = &pool};
      EXPECT_EQ(sample(loaded, options, exchange, seeds), sample(whole, options, {}, seeds))
          << "method " << &method - kMethods << " with " << ranks_per_machine << " ranks per machine";
    }
    communicator.close();
    loaded.close(run.machine);
  }
  whole.close(alone.machine);
}

TEST(TypedParts, GiveTheBatchesOfTheGraphInMemoryOnAnyMachines) {
  expect_batches_of_memory(comm::TopologyOptions::Compute::cpu, 0);
}

TEST(TypedParts, GiveTheBatchesOfTheGraphInMemoryOnGpus) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  for (const std::int64_t gpu_bytes : {Count{0}, Count{1} << 24})
    expect_batches_of_memory(comm::TopologyOptions::Compute::cuda, gpu_bytes);
}

TEST(TypedParts, TakeNodesWithoutEdges) {
  const TypedGraphOptions dataset{.papers = 0, .authors = 0, .venues = 9, .feature_cols = 0};
  const TypedParts parts(dataset);
  const RunSetup run(1);
  MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(), {.edge_ids = true});
  comm::Communicator communicator = test::world().communicator().duplicate();
  ThreadPool pool(1);
  const auto picks = sample(loaded, options_of({.by_relation = true}, 6),
                            {.communicator = &communicator,
                             .topology = &run.topology,
                             .machine_offsets = loaded.machine_offsets(),
                             .pool = &pool},
                            {1, 2});
  EXPECT_THAT(picks, testing::Each(testing::IsEmpty()));
  communicator.close();
  loaded.close(run.machine);
}

}  // namespace
}  // namespace strata::store
