// SPDX-License-Identifier: Apache-2.0
#include "strata/partition/build.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "random_graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/files.hpp"
#include "support/expect_error.hpp"
#include "support/small_disk.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;
using graph::PartReader;
using graph::Split;
using test::expect_error;
using test::random_graph;
using test::RandomGraphOptions;

/// The graph put together from its parts again, in original ids.
struct Restored {
  graph::Manifest manifest;
  std::vector<NodeId> original_ids;  // by global id
  graph::CscGraph structure;
  std::vector<std::int32_t> labels;
  std::vector<float> features;
  graph::Splits splits;
};

float as_float(const std::byte* data, DType dtype) {
  float value = 0;
  std::uint16_t half = 0;
  std::memcpy(&value, data, dtype == DType::f32 ? 4 : 0);
  std::memcpy(&half, data, dtype == DType::f32 ? 0 : 2);
  return dtype == DType::f32 ? value : dtype == DType::f16 ? f16_to_f32(half) : bf16_to_f32(half);
}

void restore_split(const PartReader& reader, Split split, const NodeId* originals,
                   std::vector<NodeId>& nodes) {
  const auto rows = reader.read_split(split);
  for (std::size_t i = 0; i < rows.rows.size(); ++i) nodes.at(at(rows.ranks[i])) = originals[rows.rows[i]];
}

Restored restore(const fs::path& directory) {
  Restored r;
  r.manifest = graph::read_manifest(directory);
  const Count num_nodes = r.manifest.book.num_nodes(), cols = r.manifest.feature_cols;
  r.original_ids.resize(at(num_nodes));
  const auto words = at(r.manifest.label_words());
  r.labels.resize(r.manifest.has_labels ? at(num_nodes) * words : 0);
  r.features.resize(at(num_nodes * cols));
  r.splits = {std::vector<NodeId>(at(r.manifest.num_train), -1),
              std::vector<NodeId>(at(r.manifest.num_valid), -1),
              std::vector<NodeId>(at(r.manifest.num_test), -1)};
  std::vector<std::vector<NodeId>> lists(at(num_nodes));
  std::vector<std::vector<EdgeId>> ids(at(num_nodes));
  std::vector<std::vector<float>> list_weights(at(num_nodes));
  for (const bool originals_only : {true, false}) {
    for (int part = 0; part < r.manifest.book.num_parts(); ++part) {
      const PartReader reader = PartReader::open(directory, r.manifest, part);
      NodeId* originals = r.original_ids.data() + r.manifest.book.offsets()[at(part)];
      reader.read_original_ids(0, reader.num_inner(), originals);
      if (originals_only) continue;
      std::vector<Count> indptr(at(reader.num_inner() + 1));
      std::vector<NodeId> indices(at(reader.num_edges()));
      std::vector<EdgeId> edge_ids(indices.size());
      std::vector<float> weights(r.manifest.has_edge_weights ? indices.size() : 0);
      if (r.manifest.has_edge_weights) reader.read_weights(0, reader.num_edges(), weights.data());
      std::vector<std::int32_t> labels(r.manifest.has_labels ? at(reader.num_inner()) * words : 0);
      std::vector<std::byte> rows(at(reader.num_inner() * cols) * size_of(r.manifest.feature_dtype));
      reader.read_indptr(0, reader.num_inner() + 1, indptr.data());
      reader.read_indices(0, reader.num_edges(), indices.data());
      reader.read_edge_ids(0, reader.num_edges(), edge_ids.data());
      if (r.manifest.has_labels) reader.read_labels(0, reader.num_inner(), labels.data());
      if (cols > 0) reader.read_features(0, reader.num_inner(), rows.data());
      for (Count row = 0; row < reader.num_inner(); ++row) {
        const auto v = at(originals[row]);
        for (Count e = indptr[at(row)]; e < indptr[at(row + 1)]; ++e) {
          lists[v].push_back(r.original_ids.at(at(indices[at(e)])));
          ids[v].push_back(edge_ids[at(e)]);
          if (r.manifest.has_edge_weights) list_weights[v].push_back(weights[at(e)]);
        }
        for (std::size_t w = 0; r.manifest.has_labels && w < words; ++w)
          r.labels[v * words + w] = labels[at(row) * words + w];
        for (Count c = 0; c < cols; ++c) {
          r.features[v * at(cols) + at(c)] = as_float(
              rows.data() + at(row * cols + c) * size_of(r.manifest.feature_dtype), r.manifest.feature_dtype);
        }
      }
      restore_split(reader, Split::train, originals, r.splits.train);
      restore_split(reader, Split::valid, originals, r.splits.valid);
      restore_split(reader, Split::test, originals, r.splits.test);
    }
  }
  r.structure.num_nodes = num_nodes;
  r.structure.indptr = {0};
  for (std::size_t v = 0; v < lists.size(); ++v) {
    r.structure.indices.insert(r.structure.indices.end(), lists[v].begin(), lists[v].end());
    r.structure.edge_ids.insert(r.structure.edge_ids.end(), ids[v].begin(), ids[v].end());
    r.structure.weights.insert(r.structure.weights.end(), list_weights[v].begin(), list_weights[v].end());
    r.structure.indptr.push_back(static_cast<Count>(r.structure.indices.size()));
  }
  return r;
}

std::vector<float> converted(const graph::FeatureTable& table, DType dtype) {
  std::vector<float> values;
  for (Count i = 0; i < table.rows * table.cols; ++i) {
    const float x = as_float(table.data + at(i) * size_of(table.dtype), table.dtype);
    values.push_back(dtype == DType::f32   ? x
                     : dtype == DType::f16 ? f16_to_f32(f32_to_f16(x))
                                           : bf16_to_f32(f32_to_bf16(x)));
  }
  return values;
}

void expect_heat_order(const Restored& restored) {
  std::vector<Count> heat(at(restored.structure.num_nodes));
  for (const NodeId u : restored.structure.indices) ++heat[at(u)];
  for (int part = 0; part < restored.manifest.book.num_parts(); ++part) {
    const auto offsets = restored.manifest.book.offsets();
    for (NodeId id = offsets[at(part)] + 1; id < offsets[at(part) + 1]; ++id) {
      const NodeId a = restored.original_ids[at(id - 1)], b = restored.original_ids[at(id)];
      EXPECT_TRUE(heat[at(a)] > heat[at(b)] || (heat[at(a)] == heat[at(b)] && a < b)) << "global id " << id;
    }
  }
}

void expect_round_trip(const RandomGraphOptions& options, const AssignOptions& assign, DType dtype) {
  const test::TemporaryFolder folder;
  const graph::Graph expected = random_graph(options);
  StopFlag stop;
  build(
      random_graph(options),
      {.output = folder / "out", .assign = assign, .feature_dtype = dtype, .num_threads = 2, .input = "test"},
      stop);
  const Restored got = restore(folder / "out");
  EXPECT_EQ(got.manifest.undirected, options.undirected);
  EXPECT_EQ(got.structure.indptr, expected.structure.indptr);
  EXPECT_EQ(got.structure.indices, expected.structure.indices);
  EXPECT_EQ(got.structure.edge_ids, expected.structure.edge_ids);
  EXPECT_EQ(got.manifest.has_edge_weights, options.weights);
  EXPECT_EQ(got.structure.weights, expected.structure.weights);
  EXPECT_EQ(got.labels, expected.labels);
  EXPECT_EQ(got.features, converted(expected.features, dtype));
  EXPECT_EQ(got.splits.train, expected.splits.train);
  EXPECT_EQ(got.splits.valid, expected.splits.valid);
  EXPECT_EQ(got.splits.test, expected.splits.test);
  expect_heat_order(got);
  const auto problems = verify(folder / "out", 2);
  EXPECT_TRUE(problems.empty()) << verify_text(folder / "out", problems);
}

TEST(Build, GivesBackTheGraphForEveryMethodAndNumberOfParts) {
#ifdef __SANITIZE_ADDRESS__
  constexpr int kMany = 20;
#else
  constexpr int kMany = 200;
#endif
  std::uint64_t seed = 0;
  for (const PartitionMethod method : {PartitionMethod::automatic, PartitionMethod::metis,
                                       PartitionMethod::random, PartitionMethod::range}) {
    for (const int parts : {1, 2, 5, kMany}) {
      for (const bool undirected : {false, true}) {
        SCOPED_TRACE(std::string(enum_name(method)) + " " + std::to_string(parts) + " seed " +
                     std::to_string(++seed));
        expect_round_trip({.undirected = undirected, .seed = seed}, {.num_parts = parts, .method = method},
                          DType::f32);
      }
    }
  }
}

TEST(Build, ConvertsFeatures) {
  for (const DType from : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(std::string(strata::name_of(from)) + " to " + std::string(strata::name_of(to)));
      expect_round_trip({.feature_dtype = from}, {.num_parts = 3}, to);
    }
  }
}

/// The rows of all parts, by original id, and what they mean.
struct CodedRows {
  std::vector<std::byte> codes;
  std::vector<float> floats;
};
CodedRows coded_rows(const fs::path& directory) {
  const graph::Manifest manifest = graph::read_manifest(directory);
  const RowCode& code = manifest.feature_code;
  const Count nodes = manifest.book.num_nodes(), row_bytes = manifest.feature_row_bytes();
  CodedRows all{std::vector<std::byte>(at(nodes * row_bytes)), std::vector<float>(at(nodes * code.cols))};
  for (int part = 0; part < manifest.book.num_parts(); ++part) {
    const PartReader reader = PartReader::open(directory, manifest, part);
    std::vector<NodeId> originals(at(reader.num_inner()));
    std::vector<std::byte> rows(at(reader.num_inner() * row_bytes));
    reader.read_original_ids(0, reader.num_inner(), originals.data());
    reader.read_features(0, reader.num_inner(), rows.data());
    for (std::size_t r = 0; r < originals.size(); ++r) {
      std::byte* const to = all.codes.data() + originals[r] * row_bytes;
      std::copy_n(rows.data() + static_cast<Count>(r) * row_bytes, row_bytes, to);
      code.decode(to, all.floats.data() + originals[r] * code.cols);
    }
  }
  return all;
}

TEST(Build, CompressesFeatures) {
  const RandomGraphOptions options{.feature_cols = 13, .labels = false};
  const std::vector<float> floats = converted(random_graph(options).features, DType::f32);
  for (const auto kind : {RowCode::Kind::i8, RowCode::Kind::e4m3, RowCode::Kind::i4, RowCode::Kind::vq}) {
    SCOPED_TRACE(strata::name_of(kind));
    const test::TemporaryFolder folder;
    StopFlag stop;
    const auto build_as = [&](const char* name, const RowCode& code, int parts) {
      graph::Graph graph = random_graph(options);
      return build(std::move(graph),
                   {.output = folder / name,
                    .assign = {.num_parts = parts},
                    .num_threads = 2,
                    .feature_code = code},
                   stop)
          .record;
    };
    const graph::PartitionRecord record = build_as("three", {.kind = kind}, 3);
    const RowCode& code = record.manifest.feature_code;
    EXPECT_EQ(graph::read_manifest(folder / "three").feature_type(), strata::name_of(kind));
    EXPECT_EQ(record.manifest.feature_row_bytes(), kind == RowCode::Kind::i4   ? 12
                                                   : kind == RowCode::Kind::vq ? 4
                                                                               : 20);
    const CodedRows rows = coded_rows(folder / "three");
    std::vector<std::byte> expected(rows.codes.size());
    for (Count row = 0; row < record.manifest.book.num_nodes(); ++row)
      code.encode(floats.data() + row * code.cols, expected.data() + row * code.row_bytes());
    EXPECT_EQ(rows.codes, expected);
    const auto problems = verify(folder / "three", 2);
    EXPECT_TRUE(problems.empty()) << verify_text(folder / "three", problems);
    EXPECT_EQ(build_as("again", {.kind = kind}, 2).graph_digest, record.graph_digest)
        << "depends on the parts";
    // What was decoded has the same code again.
    graph::Graph whole =
        graph::read_graph((folder / "three").string(),
                          {.duplicates = graph::EdgePolicy::keep, .self_loops = graph::EdgePolicy::keep});
    const graph::PartitionRecord other =
        build(
            std::move(whole),
            {.output = folder / "other", .assign = {.num_parts = 2}, .num_threads = 2, .feature_code = code},
            stop)
            .record;
    EXPECT_EQ(other.graph_digest, record.graph_digest);
    EXPECT_EQ(coded_rows(folder / "other").floats, rows.floats);
  }
}

TEST(Build, RefusesWhatACodeCannotHold) {
  const test::TemporaryFolder folder;
  auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3.4e38F, 4});
  graph::Graph graph;
  graph.structure.num_nodes = 2;
  graph.structure.indptr = {0, 0, 0};
  graph.features = {.rows = 2,
                    .cols = 2,
                    .dtype = DType::f32,
                    .data = reinterpret_cast<const std::byte*>(values->data()),
                    .keep_alive = values};
  StopFlag stop;
  expect_error<InputError>(
      [&] {
        build(std::move(graph), {.output = folder / "out", .feature_code = {.kind = RowCode::Kind::i8}},
              stop);
      },
      {"node 1", "beyond the range of i8"});
}

TEST(Build, TakesGraphsWithoutFeaturesLabelsOrEdges) {
  expect_round_trip({.feature_cols = 0}, {.num_parts = 2}, DType::f32);
  expect_round_trip({.labels = false}, {.num_parts = 2}, DType::f32);
  expect_round_trip({.label_sets = true}, {.num_parts = 3}, DType::f32);
  expect_round_trip({.num_edges = 0}, {.num_parts = 2}, DType::f32);
  expect_round_trip({.num_nodes = 1, .num_edges = 1}, {.num_parts = 1}, DType::f32);
}

TEST(Build, CarriesEdgeWeights) {
  for (const int parts : {1, 3})
    expect_round_trip({.undirected = true, .weights = true}, {.num_parts = parts}, DType::f32);
  graph::Graph graph = random_graph({.weights = true});
  graph.structure.weights[7] = -1;
  const test::TemporaryFolder folder;
  StopFlag stop;
  EXPECT_THROW(build(std::move(graph), {.output = folder / "out"}, stop), InputError);
}

TEST(Build, TakesManyPiecesAPart) {
  expect_round_trip({.num_nodes = 3000, .num_edges = 300000, .feature_cols = 1500, .seed = 3},
                    {.num_parts = 2}, DType::bf16);
}

TEST(Build, NumbersEdgesThatHaveNoIds) {
  const test::TemporaryFolder folder;
  graph::Graph graph = random_graph({});
  graph.structure.edge_ids.clear();
  StopFlag stop;
  build(std::move(graph), {.output = folder / "out", .assign = {.num_parts = 3}}, stop);
  const Restored got = restore(folder / "out");
  for (std::size_t e = 0; e < got.structure.edge_ids.size(); ++e)
    ASSERT_EQ(got.structure.edge_ids[e], static_cast<EdgeId>(e));
}

class BuildInFolder : public testing::Test {
 protected:
  BuildOptions options(const std::string& name = "out") const {
    return {.output = folder_ / name, .assign = {.num_parts = 3}, .num_threads = 2, .input = "test"};
  }
  BuildReport run(const BuildOptions& options, const RandomGraphOptions& graph = {}) {
    return build(random_graph(graph), options, stop_);
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }
  test::TemporaryFolder folder_;
  StopFlag stop_;
};

TEST_F(BuildInFolder, GivesTheSameBytesWhateverTheThreads) {
  for (const int threads : {1, 3}) {
    BuildOptions o = options("out" + std::to_string(threads));
    o.num_threads = threads;
    run(o);
  }
  for (const auto& entry : fs::directory_iterator(folder_ / "out1")) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(read_file(entry.path()), read_file(folder_ / "out3" / name)) << name;
  }
}

TEST_F(BuildInFolder, KnowsAGraphAgainInOtherParts) {
  int builds = 0;
  const auto digest_of_parts = [&](graph::Graph graph, const AssignOptions& assign,
                                   DType dtype = DType::f32) {
    BuildOptions o = options("out" + std::to_string(++builds));
    o.assign = assign;
    o.feature_dtype = dtype;
    build(std::move(graph), o, stop_);
    const std::string digest = graph::read_graph_digest(o.output);
    EXPECT_EQ(digest.size(), 16u);
    return digest;
  };
  const auto random = [] { return random_graph({.weights = true}); };
  const AssignOptions three{.num_parts = 3};
  const std::string first = digest_of_parts(random(), three);
  EXPECT_EQ(digest_of_parts(random(), {.num_parts = 1}), first);
  EXPECT_EQ(digest_of_parts(random(), {.num_parts = 5, .method = PartitionMethod::random}), first);

  const auto changed = [&](auto change) {
    graph::Graph graph = random();
    change(graph);
    return digest_of_parts(std::move(graph), three);
  };
  EXPECT_NE(digest_of_parts(random(), three, DType::bf16), first);
  EXPECT_NE(digest_of_parts(random_graph({.weights = true, .seed = 2}), three), first);
  EXPECT_NE(changed([](graph::Graph& g) { g.structure.weights[7] += 1; }), first);
  EXPECT_NE(changed([](graph::Graph& g) { std::swap(g.labels[3], g.labels[4]), ++g.labels[3]; }), first);
  EXPECT_NE(changed([](graph::Graph& g) { g.splits.train.pop_back(); }), first);
  EXPECT_NE(changed([](graph::Graph& g) { ++g.num_classes; }), first);
  std::vector<float> features;
  const auto with_features = [&](auto change) {
    return changed([&](graph::Graph& g) {
      const auto* data = reinterpret_cast<const float*>(g.features.data);
      features.assign(data, data + g.features.rows * g.features.cols);
      change(features);
      g.features.data = reinterpret_cast<const std::byte*>(features.data());
    });
  };
  EXPECT_EQ(with_features([](auto&) {}), first);
  EXPECT_NE(with_features([](auto& x) { x[17] += 0.5f; }), first);
  EXPECT_NE(with_features([](auto& x) { std::rotate(x.begin(), x.begin() + 5, x.end()); }), first)
      << "rows of other nodes";
}

TEST_F(BuildInFolder, CountsCutHaloAndBalance) {
  graph::Graph graph;
  graph.structure = {4, {0, 0, 2, 3, 5}, {0, 3, 1, 0, 2}, {}};  // 0->1, 3->1, 1->2, 0->3, 2->3
  graph.splits.train = {0, 1, 2};
  BuildOptions o = options();
  o.assign = {.num_parts = 2, .method = PartitionMethod::range};  // {0, 1} and {2, 3}
  const BuildReport report = build(std::move(graph), o, stop_);
  EXPECT_EQ(report.record.parts[0].cut_edges, 1);
  EXPECT_EQ(report.record.parts[0].halo_nodes, 1);
  EXPECT_EQ(report.record.parts[1].cut_edges, 2);
  EXPECT_EQ(report.record.parts[1].halo_nodes, 2);
  EXPECT_THAT(report.record.constraints[1].weights, testing::ElementsAre(2, 3));
  EXPECT_THAT(report.record.constraints[2].weights, testing::ElementsAre(2, 1));
  EXPECT_DOUBLE_EQ(summarize(report.record).replication, 7.0 / 4);
  EXPECT_DOUBLE_EQ(report.record.constraints[1].balance(), 3 / 2.5);
  EXPECT_THAT(info_text(report.record), testing::HasSubstr("1.750"));
  EXPECT_THAT(info_json(report.record), testing::HasSubstr("\"halo_nodes\": 3"));
}

TEST_F(BuildInFolder, RecordsTheWeightsOfNodes) {
  const auto constraints = [&](graph::NodeWeights weights, const AssignOptions& assign) {
    graph::Graph graph;
    graph.structure = {4, {0, 0, 2, 3, 5}, {0, 3, 1, 0, 2}, {}};
    graph.node_weights = std::move(weights);
    BuildOptions o = options();
    o.force = true;
    o.assign = assign;
    std::vector<graph::ConstraintRecord> records = build(std::move(graph), o, stop_).record.constraints;
    EXPECT_TRUE(verify(o.output, 1).empty());
    records.erase(records.begin(), records.begin() + 3);
    return records;
  };
  const AssignOptions range{.num_parts = 2, .method = PartitionMethod::range};
  EXPECT_TRUE(constraints({}, range).empty());
  const auto one = constraints({.kinds = 1, .values = {5, 0, 1, 2}}, range);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].name, "weights");
  EXPECT_FALSE(one[0].balanced);
  EXPECT_THAT(one[0].weights, testing::ElementsAre(5, 3));
  const auto two = constraints({.kinds = 2, .values = {1, 9, 1, 9, 1, 0, 1, 0}},
                               {.num_parts = 2, .balance = {Constraint::weights}});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].name, "weights 2");
  EXPECT_TRUE(two[1].balanced);
  EXPECT_THAT(two[0].weights, testing::ElementsAre(2, 2));
  EXPECT_THAT(two[1].weights, testing::ElementsAre(9, 9));
  EXPECT_THAT(info_text(graph::read_partition_record(folder_ / "out")), testing::HasSubstr("weights 2"));
  EXPECT_THROW(constraints({.kinds = 2, .values = {1, 2, 3}}, range), InputError);
}

TEST_F(BuildInFolder, ReplacesOnlyPartitionsAndOnlyIfForced) {
  run(options());
  const std::string before = read_file(folder_ / "out/manifest.json");
  expect_error([&] { run(options()); }, {"exists", "--force"});
  EXPECT_EQ(read_file(folder_ / "out/manifest.json"), before);
  BuildOptions forced = options();
  forced.force = true;
  forced.assign.num_parts = 2;
  run(forced);
  EXPECT_EQ(graph::read_manifest(folder_ / "out").book.num_parts(), 2);
  EXPECT_TRUE(verify(folder_ / "out", 1).empty());
  EXPECT_THAT(entries(), testing::ElementsAre("out"));

  std::ofstream{folder_ / "out/thesis.tex"} << "precious";
  expect_error([&] { run(forced); }, {"thesis.tex", "Choose another name"});
  EXPECT_EQ(read_file(folder_ / "out/thesis.tex"), "precious");
}

TEST_F(BuildInFolder, TakesAnEmptyDirectoryAndATrailingSlash) {
  fs::create_directory(folder_ / "out");
  run(options("out/"));
  EXPECT_TRUE(verify(folder_ / "out", 1).empty());
}

TEST_F(BuildInFolder, RefusesOutputsThatCannotBe) {
  expect_error([&] { check_output(options("none/out")); }, {"does not exist", "mkdir"});
  expect_error([&] { check_output(options("..")); }, {"no directory of its own"});
  std::ofstream{folder_ / "file"} << "x";
  BuildOptions forced = options("file");
  forced.force = true;
  expect_error([&] { check_output(forced); }, {"no directory"});
}

TEST_F(BuildInFolder, LeavesNothingBehindWhenStopped) {
  stop_.request();
  EXPECT_THROW(run(options()), Stopped);
  EXPECT_THAT(entries(), testing::IsEmpty());
  EXPECT_FALSE(stop_.cleanup_needed());
}

TEST_F(BuildInFolder, RefusesFeaturesThatAreNotFinite) {
  const auto with = [](float value) {
    graph::Graph graph = random_graph({});
    auto data = std::make_shared<std::vector<float>>(1000, 1.0f);
    (*data)[17 * 5 + 3] = value;
    graph.features.data = reinterpret_cast<const std::byte*>(data->data());
    graph.features.keep_alive = data;
    return graph;
  };
  BuildOptions o = options();
  expect_error([&] { build(with(std::nanf("")), o, stop_); }, {"feature 3 of node 17", "nan"});
  o.feature_dtype = DType::f16;
  expect_error([&] { build(with(70000), o, stop_); },
               {"feature 3 of node 17 is 70000", "f16", "--features bf16"});
  o.feature_dtype = DType::bf16;
  expect_error([&] { build(with(std::numeric_limits<float>::max()), o, stop_); }, {"--features f32"});
  EXPECT_THAT(entries(), testing::IsEmpty());
  build(with(70000), o, stop_);
}

TEST_F(BuildInFolder, TellsAFullDiskAndRemovesWhatItWrote) {
  const test::SmallDisk disk{folder_ / "disk", "700k"};
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs needs root";
  // The first is refused before METIS; the second fits but for the files' own overhead, so that writing
  // fails.
  expect_error<IoError>([&] { run(options("disk/out"), {.num_edges = 200000}); }, {"disk", "full"});
  EXPECT_TRUE(fs::is_empty(folder_ / "disk"));
  BuildOptions many = options("disk/out");
  many.assign.num_parts = 200;
  expect_error<IoError>([&] { run(many); }, {"No space left", "disk is full"});
  EXPECT_TRUE(fs::is_empty(folder_ / "disk"));
}

}  // namespace
}  // namespace strata::partition
