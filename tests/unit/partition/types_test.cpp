// SPDX-License-Identifier: Apache-2.0
// Parts of graphs of several types of nodes and edges.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "output/convert.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/typed_graph.hpp"

namespace strata::partition {
namespace {

using test::expect_error;
using test::random_typed_graph;
using testing::HasSubstr;

class TypedParts : public testing::Test {
 protected:
  graph::PartitionRecord cut(graph::Graph graph, const std::string& name, const AssignOptions& assign) {
    StopFlag stop;
    build(std::move(graph), {.output = folder_ / name, .assign = assign, .num_threads = 2}, stop);
    return graph::read_partition_record(folder_ / name);
  }
  std::string problems(const std::string& name) const {
    const auto found = verify(folder_ / name, 2);
    return found.empty() ? "none" : verify_text(folder_ / name, found);
  }
  graph::Source source(const std::string& name) const { return graph::Source((folder_ / name).string()); }

  test::TemporaryFolder folder_;
};

std::vector<float> values_of(const graph::FeatureTable& table) {
  std::vector<float> values(at(table.rows * table.cols));
  std::memcpy(values.data(), table.data, values.size() * sizeof(float));
  return values;
}

void expect_same(const graph::Graph& got, const graph::Graph& expected) {
  EXPECT_EQ(got.types, expected.types);
  EXPECT_EQ(got.structure.indptr, expected.structure.indptr);
  EXPECT_EQ(got.structure.indices, expected.structure.indices);
  EXPECT_EQ(got.structure.edge_ids, expected.structure.edge_ids);
  EXPECT_EQ(got.structure.weights, expected.structure.weights);
  EXPECT_EQ(got.structure.sublists.first, expected.structure.sublists.first);
  EXPECT_EQ(got.structure.sublists.begins, expected.structure.sublists.begins);
  EXPECT_EQ(got.structure.sublists.relations, expected.structure.sublists.relations);
  EXPECT_EQ(got.labels, expected.labels);
  EXPECT_EQ(got.num_classes, expected.num_classes);
  EXPECT_EQ(values_of(got.features), values_of(expected.features));
  EXPECT_EQ(got.splits.train, expected.splits.train);
  EXPECT_EQ(got.splits.valid, expected.splits.valid);
  EXPECT_EQ(got.splits.test, expected.splits.test);
}

TEST_F(TypedParts, HoldTheGraph) {
  int number = 0;
  for (const int num_parts : {1, 3})
    for (const PartitionMethod method :
         {PartitionMethod::automatic, PartitionMethod::metis, PartitionMethod::random})
      for (const int more_relations : {0, 300}) {
        const test::TypedGraphOptions options{.more_relations = more_relations,
                                              .weights = number % 2 == 0,
                                              .seed = static_cast<std::uint64_t>(number)};
        const std::string name = std::to_string(number++);
        const auto record =
            cut(random_typed_graph(options), name, {.num_parts = num_parts, .method = method});
        EXPECT_EQ(record.manifest.types, random_typed_graph(options).types);
        EXPECT_EQ(record.manifest.version(), 2);
        EXPECT_EQ(problems(name), "none");
        expect_same(graph::read_graph(source(name)), random_typed_graph(options));
      }
}

/// Where the nodes of a type begin.
NodeId first_of(const graph::Graph& graph, const std::string& type) {
  const auto& names = graph.types.nodes;
  return graph.types.node_offsets[at(std::ranges::find(names, type) - names.begin())];
}

/// [edges of a relation] (edge, source, destination, weight), each counted within its type; sorted.
std::vector<std::tuple<EdgeId, NodeId, NodeId, float>> edges_of(const graph::Graph& graph,
                                                                std::size_t relation) {
  std::vector<std::tuple<EdgeId, NodeId, NodeId, float>> edges;
  const graph::CscGraph& lists = graph.structure;
  const EdgeId begin = graph.types.edge_offsets[relation], end = graph.types.edge_offsets[relation + 1];
  const auto& [source, name, destination] = graph.types.edges[relation];
  for (NodeId v = 0; v < lists.num_nodes; ++v)
    for (Count e = lists.indptr[at(v)]; e < lists.indptr[at(v) + 1]; ++e)
      if (lists.edge_ids[at(e)] >= begin && lists.edge_ids[at(e)] < end)
        edges.emplace_back(lists.edge_ids[at(e)] - begin, lists.indices[at(e)] - first_of(graph, source),
                           v - first_of(graph, destination),
                           lists.weights.empty() ? 1.F : lists.weights[at(e)]);
  std::ranges::sort(edges);
  return edges;
}

TEST_F(TypedParts, BecomeFoldersOfArrays) {
  const graph::Graph graph = random_typed_graph({.weights = true});
  StopFlag stop;
  write_npy_folder(graph, folder_ / "arrays", stop);
  const graph::Source arrays("npy:" + (folder_ / "arrays").string());
  const graph::Graph read = graph::read_graph(arrays, {.duplicates = graph::EdgePolicy::keep});
  EXPECT_THAT(read.types.nodes, testing::UnorderedElementsAreArray(graph.types.nodes));
  ASSERT_THAT(read.types.edges, testing::UnorderedElementsAreArray(graph.types.edges));
  for (std::size_t r = 0; r < read.types.edges.size(); ++r) {
    const auto same = std::ranges::find(graph.types.edges, read.types.edges[r]) - graph.types.edges.begin();
    EXPECT_EQ(edges_of(read, r), edges_of(graph, at(same))) << r;
  }
  const NodeId papers = first_of(read, "paper");
  EXPECT_TRUE(std::equal(graph.labels.begin(), graph.labels.begin() + 120, read.labels.begin() + papers));
  ASSERT_EQ(read.splits.train.size(), graph.splits.train.size());
  for (std::size_t i = 0; i < read.splits.train.size(); ++i)
    EXPECT_EQ(read.splits.train[i] - papers, graph.splits.train[i]);
  const auto row = [](const graph::Graph& of, NodeId node) {
    const auto values = values_of(of.features);
    return std::vector<float>(values.begin() + node * of.features.cols,
                              values.begin() + (node + 1) * of.features.cols);
  };
  for (const auto& [type, cols] : {std::pair("paper", 5), std::pair("author", 2), std::pair("venue", 0)}) {
    const auto number = std::ranges::find(read.types.nodes, type) - read.types.nodes.begin();
    EXPECT_EQ(read.types.feature_cols[at(number)], cols) << type;
    EXPECT_EQ(row(read, first_of(read, type) + 3), row(graph, first_of(graph, type) + 3)) << type;
  }
  const graph::Graph cleaned = graph::read_graph(arrays);
  EXPECT_LT(cleaned.structure.num_edges(), read.structure.num_edges());
  write_npy_folder(cleaned, folder_ / "again", stop);
  const graph::Graph again = graph::read_graph(graph::Source("npy:" + (folder_ / "again").string()),
                                               {.duplicates = graph::EdgePolicy::keep});
  EXPECT_EQ(again.structure.indptr, cleaned.structure.indptr);
  EXPECT_EQ(again.structure.indices, cleaned.structure.indices);
  EXPECT_EQ(again.structure.weights, cleaned.structure.weights);
  EXPECT_EQ(values_of(again.features), values_of(read.features));
}

TEST_F(TypedParts, RefuseNamesThatNoFolderHas) {
  graph::Graph graph = random_typed_graph({});
  graph.types.edges[1].name = "http://x/cites";
  StopFlag stop;
  expect_error<InputError>([&] { write_npy_folder(graph, folder_ / "arrays", stop); },
                           {"paper__http://x/cites__paper", "no folder"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "arrays"));
}

TEST_F(TypedParts, AreTheSameFromListsOnDisk) {
  const auto expected = cut(random_typed_graph({.weights = true}), "memory", {.num_parts = 3});
  ScratchStore scratch{folder_.path(), Count{8} << 20};
  StopFlag stop;
  graph::StoredGraph stored = graph::read_stored_graph(source("memory"), {.num_threads = 2}, {}, scratch);
  ASSERT_TRUE(stored.lists);
  build(std::move(stored), {.output = folder_ / "disk", .assign = {.num_parts = 2}, .num_threads = 2},
        scratch, stop);
  EXPECT_EQ(problems("disk"), "none");
  EXPECT_EQ(graph::read_partition_record(folder_ / "disk").graph_digest, expected.graph_digest);
  expect_same(graph::read_graph(source("disk")), random_typed_graph({.weights = true}));
}

TEST_F(TypedParts, HaveADigestOfTheirTypes) {
  const auto digest = [&](const std::string& name, const std::string& relation, int num_parts) {
    graph::Graph graph = random_typed_graph({});
    graph.types.edges[1].name = relation;
    return cut(std::move(graph), name, {.num_parts = num_parts}).graph_digest;
  };
  const std::string expected = digest("a", "cites", 1);
  EXPECT_EQ(digest("b", "cites", 4), expected);
  EXPECT_NE(digest("c", "quotes", 1), expected);
}

TEST_F(TypedParts, BalanceTheNodesOfEachType) {
  const test::TypedGraphOptions options{.papers = 800, .authors = 500, .venues = 160};
  for (const PartitionMethod method : {PartitionMethod::automatic, PartitionMethod::metis}) {
    const auto record =
        cut(random_typed_graph(options), std::string(enum_name(method)),
            {.num_parts = 4, .method = method, .balance = {Constraint::types}, .imbalance = 0.1});
    std::vector<std::string> names;
    for (const graph::ConstraintRecord& c : record.constraints) {
      names.push_back(c.name);
      if (c.name.starts_with("type ") && c.name != "type nothing") {
        EXPECT_TRUE(c.balanced);
        EXPECT_LE(c.balance(), 1.1 + 1e-9) << c.name;
      }
    }
    EXPECT_THAT(names, testing::Contains("type venue"));
  }
}

TEST_F(TypedParts, BalanceTypesOnlyWhereThereAreSome) {
  const AssignOptions assign{.num_parts = 2, .balance = {Constraint::types}};
  graph::Graph plain = random_typed_graph({.authors = 1, .venues = 1});
  plain.types = {};
  plain.structure = {.num_nodes = 2, .indptr = {0, 0, 1}, .indices = {0}, .edge_ids = {}};
  plain.features = {};
  plain.labels = {};
  plain.splits = {};
  expect_error<InputError>([&] { cut(std::move(plain), "plain", assign); }, {"have one type", "nodes"});
  graph::Graph many = random_typed_graph({});
  for (int t = 0; t < 20; ++t) {
    many.types.nodes.push_back("none" + std::to_string(t));
    many.types.node_offsets.push_back(many.types.node_offsets.back());
  }
  many.types.feature_cols.resize(many.types.nodes.size());
  expect_error<InputError>([&] { cut(std::move(many), "many", assign); }, {"24 types", "16"});
}

TEST_F(TypedParts, AreDescribedByTypeAndRelation) {
  const graph::Graph graph = random_typed_graph({});
  ThreadPool pool(2);
  const GraphSummary summary = summarize(graph, pool);
  ASSERT_EQ(summary.node_types.size(), 4);
  EXPECT_EQ(summary.node_types[0].labelled, 120);
  EXPECT_EQ(summary.node_types[0].train, std::ssize(graph.splits.train));
  EXPECT_EQ(summary.node_types[2].feature_cols, 2);
  EXPECT_EQ(summary.node_types[2].labelled, 0);
  const graph::Sublists& sublists = graph.structure.sublists;
  std::vector<Count> edges(6), most(6);
  for (std::size_t s = 0; s < sublists.relations.size(); ++s) {
    const auto relation = sublists.relations[s];
    const Count length = sublists.begins[s + 1] - sublists.begins[s];
    edges[relation] += length;
    most[relation] = std::max(most[relation], length);
  }
  for (std::size_t r = 0; r < edges.size(); ++r) {
    EXPECT_EQ(summary.relations[r].edges, edges[r]);
    EXPECT_EQ(summary.relations[r].most, most[r]);
  }
  EXPECT_DOUBLE_EQ(summary.relations[4].mean, 600.0 / 70);
  EXPECT_THAT(summary_text(summary), HasSubstr("(paper, written_by, author)"));
  const auto record = cut(random_typed_graph({}), "parts", {.num_parts = 2});
  EXPECT_THAT(info_text(record), HasSubstr("(venue, shows, paper)"));
  const auto found =
      nlohmann::json::parse(info_json(graph::read_partition_record(folder_ / "parts")))["types"];
  EXPECT_EQ(found, nlohmann::json::parse(summary_json(summary))["types"]) << "of parts as of the graph";
  auto uncounted = record;
  uncounted.type_facts = {};
  EXPECT_THAT(info_text(uncounted), HasSubstr("- / - / -"));
}

TEST_F(TypedParts, HoldEdgesOutOfTheLists) {
  const auto split = [] {
    graph::Graph graph = random_typed_graph({});
    ThreadPool pool(1);
    graph::split_edges(graph, {.valid = 0.1, .test = 0.2}, 3, pool);
    return graph;
  };
  const graph::Graph expected = split();
  ASSERT_GT(expected.edge_splits.valid.size(), 50);
  const auto record = cut(split(), "parts", {.num_parts = 3});
  EXPECT_EQ(record.manifest.num_valid_edges, expected.edge_splits.valid.size());
  EXPECT_EQ(record.manifest.num_test_edges, expected.edge_splits.test.size());
  EXPECT_EQ(problems("parts"), "none");
  const graph::Graph read = graph::read_graph(source("parts"));
  expect_same(read, expected);
  EXPECT_EQ(read.edge_splits, expected.edge_splits);
  EXPECT_EQ(cut(graph::read_graph(source("parts")), "again", {.num_parts = 2}).graph_digest,
            record.graph_digest);
  EXPECT_NE(cut(random_typed_graph({}), "whole", {.num_parts = 2}).graph_digest, record.graph_digest);
  EXPECT_THAT(info_text(record), HasSubstr("valid / test edges held out"));
  EXPECT_EQ(nlohmann::json::parse(info_json(record))["edge_splits"]["test"],
            expected.edge_splits.test.size());
}

TEST_F(TypedParts, NameTheTypesThatEveryMachineKeeps) {
  const test::TypedGraphOptions options{.papers = 6000, .authors = 900, .venues = 3};
  const auto kept = [&](const std::string& name, int num_parts, std::optional<Count> below) {
    StopFlag stop;
    build(random_typed_graph(options),
          {.output = folder_ / name,
           .assign = {.num_parts = num_parts, .method = PartitionMethod::range},
           .num_threads = 1,
           .replicate_below = below},
          stop);
    std::vector<std::string> types;
    const graph::Manifest manifest = graph::read_partition_record(folder_ / name).manifest;
    for (const std::size_t type : manifest.replicated_types) types.push_back(manifest.types.nodes[type]);
    return types;
  };
  using testing::ElementsAre;
  EXPECT_THAT(kept("small", 2, std::nullopt), ElementsAre("venue"));
  EXPECT_THAT(kept("none", 2, 0), ElementsAre());
  EXPECT_THAT(kept("authors", 2, 901), ElementsAre("author", "venue"));
  EXPECT_THAT(kept("one", 1, 901), ElementsAre());
  const auto record = graph::read_partition_record(folder_ / "authors");
  EXPECT_THAT(info_text(record), testing::ContainsRegex("types on every machine +author, venue \\("));
  const auto json = nlohmann::json::parse(info_json(record))["replicated_types"];
  // 30,000 entries of 12 bytes, and rows of 5 floats with an original id and an entry of indptr
  EXPECT_EQ(json[0], (nlohmann::json{{"type", "author"}, {"bytes", 30000 * 12 + 900 * (20 + 16)}}));
  EXPECT_EQ(json[1]["bytes"], 3 * (20 + 16));

  graph::Graph plain;
  plain.structure = {.num_nodes = 2, .indptr = {0, 0, 1}, .indices = {0}, .edge_ids = {0}};
  StopFlag stop;
  expect_error<InputError>(
      [&] {
        build(std::move(plain),
              {.output = folder_ / "plain", .assign = {.num_parts = 2}, .replicate_below = 5}, stop);
      },
      {"--replicate-below 5", "has one"});
}

TEST_F(TypedParts, AreNotMadeOfGraphsWithoutTheirOrder) {
  const auto expect = [&](const std::function<void(graph::Graph&)>& change, const std::string& message) {
    graph::Graph graph = random_typed_graph({});
    change(graph);
    try {
      cut(std::move(graph), "bad", {.num_parts = 2});
      ADD_FAILURE() << "accepted; expected: " << message;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  const auto first_of = [](const graph::Graph& graph, std::size_t relation) {
    const graph::Sublists& s = graph.structure.sublists;
    return at(s.begins[at(std::ranges::find(s.relations, relation) - s.relations.begin())]);
  };
  expect([&](graph::Graph& g) { g.structure.edge_ids[first_of(g, 1)] = g.types.edge_offsets.back(); },
         "of no relation");
  expect([&](graph::Graph& g) { g.structure.indices[first_of(g, 0)] = 5; }, "other types");
  expect(
      [&](graph::Graph& g) {
        const auto second = first_of(g, 1);  // behind entries of relation 0
        std::swap(g.structure.edge_ids[second], g.structure.edge_ids[second - 1]);
        std::swap(g.structure.indices[second], g.structure.indices[second - 1]);
      },
      "out of the order of relations");
  expect([](graph::Graph& g) { g.structure.edge_ids.clear(); }, "without edge ids");
  expect([](graph::Graph& g) { g.types.node_offsets.back() += 1; }, "do not divide");
}

/// Two papers and an author in two parts: the second paper cites the first, and the author writes both.
struct ForgedTypes {
  graph::PartData parts[2];
  graph::PartitionRecord record;

  ForgedTypes() {
    parts[0].indptr = {0, 1, 3};
    parts[0].indices = {2, 0, 2};
    parts[0].edge_ids = {1, 0, 2};
    parts[0].original_ids = {0, 1};
    parts[1].part = 1;
    parts[1].indptr = {0, 0};
    parts[1].original_ids = {2};
    record.manifest.name = "forged";
    record.manifest.build_id = "00000000000000ff";
    record.manifest.book = graph::PartitionBook{{0, 2, 3}};
    record.manifest.num_edges = 3;
    record.manifest.types = {.nodes = {"paper", "author"},
                             .edges = {{"paper", "cites", "paper"}, {"author", "writes", "paper"}},
                             .node_offsets = {0, 2, 3},
                             .edge_offsets = {0, 1, 3}};
  }

  std::string problems() {
    const test::TemporaryFolder folder;
    for (const graph::PartData& part : parts) {
      record.parts.push_back(graph::write_part(folder.path(), record.manifest, part, {}));
      record.parts.back().halo_nodes = part.part == 0 ? 1 : 0;
      record.parts.back().cut_edges = part.part == 0 ? 2 : 0;
    }
    graph::write_manifest(folder.path(), record);
    const auto found = verify(folder.path(), 1);
    return found.empty() ? "none" : verify_text(folder.path(), found);
  }
};

std::string problems_after(const std::function<void(ForgedTypes&)>& change) {
  ForgedTypes forged;
  change(forged);
  return forged.problems();
}

TEST(VerifyTypes, FindsEachBrokenRule) {
  const auto expect = [](const std::function<void(ForgedTypes&)>& change, const std::string& message) {
    EXPECT_THAT(problems_after(change), HasSubstr(message));
  };
  expect([](ForgedTypes&) {}, "none");
  expect([](ForgedTypes& f) { f.parts[0].edge_ids = {1, 3, 2}; }, "edge_id: holds an id of no relation");
  expect([](ForgedTypes& f) { f.parts[0].edge_ids = {0, 1, 2}; }, "joins nodes of other types");
  expect(
      [](ForgedTypes& f) {
        f.parts[0].edge_ids = {1, 2, 0};
        f.parts[0].indices = {2, 2, 0};
      },
      "not in the order of relations");
  expect(
      [](ForgedTypes& f) {
        f.record.manifest.types.node_offsets = {0, 1, 3};
      },
      "joins nodes of other types");
}

TEST(TypedManifest, RefusesTypesThatContradictThemselves) {
  const auto refusal = [](const std::function<void(graph::Manifest&)>& change) {
    ForgedTypes forged;
    forged.record.parts.resize(2);
    change(forged.record.manifest);
    try {
      graph::parse_manifest(graph::format_manifest(forged.record), "m");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using graph::Manifest;
  EXPECT_THAT(refusal([](Manifest& m) { m.types.node_offsets = {0, 2}; }), HasSubstr("node_offsets"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.node_offsets = {0, 3, 2}; }), HasSubstr("node_offsets"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.node_offsets = {0, 2, 4}; }), HasSubstr("4 nodes"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.edge_offsets = {}; }), HasSubstr("edge_offsets"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.edge_offsets = {1, 2, 3}; }), HasSubstr("edge_offsets"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.edges[0].source = "nobody"; }), HasSubstr("relations"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.edges[0] = m.types.edges[1]; }), HasSubstr("relations"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.edges = {}, m.types.edge_offsets = {0}; }),
              HasSubstr("relations"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.feature_cols = {1, 0}; }), HasSubstr("feature columns"));
  EXPECT_THAT(refusal([](Manifest& m) { m.types.feature_cols = {0}; }), HasSubstr("feature_cols"));
}

TEST(TypedManifest, KeepsTheNamesOfASingleTypeAndRelation) {
  ForgedTypes forged;
  forged.record.parts.resize(2);
  for (int p = 0; p < 2; ++p) forged.record.parts[at(p)].file = graph::part_path("", p).string();
  forged.record.parts[0].num_edges = 3;
  const auto version_of = [&](graph::GraphTypes types) {
    forged.record.manifest.types = std::move(types);
    const auto read = graph::parse_manifest(graph::format_manifest(forged.record), "m").manifest;
    EXPECT_EQ(read.types, forged.record.manifest.types);
    return read.version();
  };
  EXPECT_EQ(version_of({}), 1);
  EXPECT_EQ(version_of({.nodes = {"paper"}, .edges = {{"paper", "cites", "paper"}}}), 2);
}

}  // namespace
}  // namespace strata::partition
