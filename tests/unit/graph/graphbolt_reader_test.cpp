// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "strata/graph/read_graph.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using test::npy_bytes;
using test::write_text;

constexpr const char* kMetadata = R"(dataset_name: mini
future_field: {of: any, kind: [1, 2]}
graph:
  nodes:
    - num: 4
  edges:
    - format: numpy
      path: data/edges.npy
  feature_data:
    - {domain: edge, name: weight, format: numpy, path: data/weight.npy}
feature_data:
  - domain: node
    name: feat
    format: numpy
    in_memory: true
    path: data/feat.npy
tasks:
  - name: node_classification
    num_classes: 3
    train_set:
      - data:
          - {name: seeds, format: numpy, in_memory: true, path: data/train_seeds.npy}
          - {name: labels, format: numpy, path: data/train_labels.npy}
    validation_set:
      - data:
          - {name: seed_nodes, format: numpy, path: data/valid_seeds.npy}
          - {name: labels, format: numpy, path: data/valid_labels.npy}
    test_set:
      - data:
          - {format: numpy, path: data/test_seeds.npy}
          - {format: numpy, path: data/test_labels.npy}
)";

/// 0-1, 1-2 in both directions; node 3 is isolated and has no label.
class Graphbolt : public testing::Test {
 protected:
  Graphbolt() {
    metadata(kMetadata);
    npy("edges", npy_bytes<std::int64_t>("<i8", "(2, 4)", {0, 1, 1, 2, 1, 2, 0, 1}));
    npy("feat", npy_bytes<float>("<f4", "(4, 2)", {1, 2, 3, 4, 5, 6, 7, 8}));
    npy("weight", npy_bytes<float>("<f4", "(4,)", {0.5, 3, 0, 7}));
    npy("train_seeds", npy_bytes<std::int64_t>("<i8", "(1,)", {2}));
    npy("train_labels", npy_bytes<std::int64_t>("<i8", "(1,)", {1}));
    npy("valid_seeds", npy_bytes<std::int32_t>("<i4", "(1,)", {0}));
    npy("valid_labels", npy_bytes<std::uint8_t>("|u1", "(1,)", {2}));
    npy("test_seeds", npy_bytes<std::int64_t>("<i8", "(1,)", {1}));
    npy("test_labels", npy_bytes<float>("<f4", "(1,)", {0}));
  }
  void npy(const std::string& name, const std::string& bytes) {
    write_text(folder_ / ("data/" + name + ".npy"), bytes);
  }
  void metadata(const std::string& text) { write_text(folder_ / "metadata.yaml", text); }
  void change(const std::string& from, const std::string& to) {
    std::string text = kMetadata;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    metadata(text.replace(at, from.size(), to));
  }
  Graph read(ReadOptions options = {}) const {
    return read_graph("graphbolt:" + folder_.path().string(), options);
  }
  void refuse(const std::vector<std::string>& parts) const {
    expect_error([&] { read(); }, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Graphbolt, ReadsAFolder) {
  const Graph graph = read();
  EXPECT_EQ(graph.name, "mini");
  EXPECT_EQ(graph.structure.indptr, (std::vector<Count>{0, 1, 3, 4, 4}));
  EXPECT_EQ(graph.structure.indices, (std::vector<NodeId>{1, 0, 2, 1}));
  EXPECT_EQ(graph.structure.edge_ids, (std::vector<EdgeId>{2, 0, 3, 1}));
  EXPECT_TRUE(graph.undirected);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{2, 0, 1, -1}));
  EXPECT_EQ(graph.num_classes, 3);
  EXPECT_EQ(graph.splits.train, std::vector<NodeId>{2});
  EXPECT_EQ(graph.splits.valid, std::vector<NodeId>{0});
  EXPECT_EQ(graph.splits.test, std::vector<NodeId>{1});
  EXPECT_EQ(graph.cleaning.reverse_added, 0);
}

TEST_F(Graphbolt, GivesEachEntryTheWeightOfItsEdge) {
  EXPECT_EQ(read().structure.weights, (std::vector<float>{0, 0.5, 7, 3}));
  npy("edges", npy_bytes<std::int64_t>("<i8", "(2, 4)", {0, 0, 1, 0, 1, 1, 2, 1}));  // 0-1 three times
  EXPECT_EQ(read().structure.weights, (std::vector<float>{0.5, 0}));                 // the first listed stays
  EXPECT_EQ(read({.direction = ReadOptions::Direction::undirected}).structure.weights,
            (std::vector<float>{0.5, 0.5, 0, 0}));
  npy("weight", npy_bytes<std::int64_t>("<i8", "(4, 1)", {1, 2, 3, 4}));
  EXPECT_EQ(read().structure.weights, (std::vector<float>{1, 3}));
  change("name: weight", "name: other");
  EXPECT_TRUE(read().structure.weights.empty());
}

TEST_F(Graphbolt, RefusesWeightsThatAreNone) {
  npy("weight", npy_bytes<float>("<f4", "(3,)", {1, 1, 1}));
  refuse({"metadata.yaml:", "3 weights for 4 edges"});
  npy("weight", npy_bytes<float>("<f4", "(4,)", {1, 1, -0.25, 1}));
  refuse({"weight.npy: edge 2 has the weight -0.25", "negative or not finite"});
  npy("weight", npy_bytes<float>("<f4", "(4,)", {1, INFINITY, 1, 1}));
  refuse({"edge 1 has the weight inf"});
  npy("weight", npy_bytes<float>("<f4", "(4,)", {NAN, 1, 1, 1}));
  refuse({"edge 0 has the weight nan"});
}

TEST_F(Graphbolt, DirectedWhereAnOppositeIsMissing) {
  npy("edges", npy_bytes<std::int32_t>("<i4", "(2, 3)", {0, 1, 1, 1, 2, 0}));
  npy("weight", npy_bytes<float>("<f4", "(3,)", {1, 1, 1}));
  EXPECT_FALSE(read().undirected);
  EXPECT_EQ(read().structure.num_edges(), 3);
  const Graph both = read({.direction = ReadOptions::Direction::undirected});
  EXPECT_EQ(both.structure.num_edges(), 4);
  EXPECT_TRUE(both.undirected);
}

TEST_F(Graphbolt, ReadsEdgesOfEveryLayout) {
  const std::vector<NodeId> expected = read().structure.indices;
  npy("edges", npy_bytes<std::int64_t>("<i8", "(4, 2)", {0, 1, 1, 2, 1, 0, 2, 1}));
  EXPECT_EQ(read().structure.indices, expected);
  npy("edges", npy_bytes<std::int32_t>("<i4", "(2, 4)", {0, 1, 1, 2, 1, 0, 2, 1}, true));
  EXPECT_EQ(read().structure.indices, expected);
  npy("edges", npy_bytes<std::uint16_t>("<u2", "(2, 4)", {0, 1, 1, 2, 1, 2, 0, 1}));
  EXPECT_EQ(read().structure.indices, expected);
  change("format: numpy\n      path: data/edges.npy", "format: csv\n      path: data/edges.csv");
  write_text(folder_ / "data/edges.csv", "0,1\n1,2\n1,0\n2,1\n");
  EXPECT_EQ(read().structure.indices, expected);
}

TEST_F(Graphbolt, RefersToMappedFeaturesAndConvertsOthers) {
  const Graph mapped = read();
  EXPECT_EQ(mapped.features.dtype, DType::f32);
  EXPECT_NE(mapped.features.keep_alive, nullptr);
  EXPECT_EQ(reinterpret_cast<const float*>(mapped.features.data)[5], 6.0f);
  npy("feat", npy_bytes<std::uint16_t>("<f2", "(4, 1)", {0x3c00, 0xc000, 0x3800, 0}));  // 1, -2, 0.5, 0
  const Graph half = read();
  EXPECT_EQ(half.features.dtype, DType::f16);
  const Graph scaled = read({.normalize_features = true});
  EXPECT_EQ(scaled.features.dtype, DType::f32);
  EXPECT_EQ(reinterpret_cast<const float*>(scaled.features.data)[1], -1.0f);
  npy("feat", npy_bytes<double>("<f8", "(4, 2)", {1, 3, 5, 7, 2, 4, 6, 8}, true));
  const Graph wide = read();
  ASSERT_EQ(wide.features.dtype, DType::f32);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(reinterpret_cast<const float*>(wide.features.data)[i], static_cast<float>(i + 1));
  npy("feat", npy_bytes<std::int8_t>("|i1", "(4,)", {1, -2, 3, -4}));
  const Graph bytes = read();
  EXPECT_EQ(bytes.features.cols, 1);
  EXPECT_EQ(reinterpret_cast<const float*>(bytes.features.data)[3], -4.0f);
}

TEST_F(Graphbolt, LabelsOfAllNodesMayBeAFeature) {
  change("tasks:", "  - {domain: node, name: label, format: numpy, path: data/label.npy}\ntasks:");
  npy("label", npy_bytes<std::int64_t>("<i8", "(4,)", {2, 0, 1, 2}));
  EXPECT_EQ(read().labels, (std::vector<std::int32_t>{2, 0, 1, 2}));
  npy("label", npy_bytes<std::int64_t>("<i8", "(4,)", {2, 0, 0, 2}));
  refuse({"train_set", "node 2 has label 1 here and 0 elsewhere"});
  npy("label", npy_bytes<std::int64_t>("<i8", "(3,)", {2, 0, 0}));
  refuse({"3 labels for 4 nodes"});
}

TEST_F(Graphbolt, RowsOfZeroAndOneGiveSetsOfClasses) {
  npy("train_labels", npy_bytes<std::uint8_t>("|u1", "(1, 3)", {1, 0, 1}));
  npy("valid_labels", npy_bytes<std::int64_t>("<i8", "(1, 3)", {0, 0, 0}));
  npy("test_labels", npy_bytes<float>("<f4", "(1, 3)", {0, 1, 0}));
  const Graph graph = read();
  EXPECT_TRUE(graph.multi_label);
  EXPECT_EQ(graph.num_classes, 3);
  EXPECT_EQ(graph.labels, (std::vector<std::int32_t>{0, 0b010, 0b101, 0b1000}));
  npy("test_labels", npy_bytes<float>("<f4", "(1, 2)", {0, 1}));
  refuse({"labels of other shape than before"});
  npy("test_labels", npy_bytes<float>("<f4", "(1,)", {1}));
  refuse({"labels of other shape than before"});
  npy("test_labels", npy_bytes<float>("<f4", "(1, 3)", {0, 1, 0}));
  change("num_classes: 3", "num_classes: 4");
  refuse({"num_classes is 4", "3 columns"});
}

TEST_F(Graphbolt, ATaskAndAFeatureAreChosenAmongSeveral) {
  change("tasks:",
         "  - {domain: node, name: year, format: numpy, path: data/none.npy}\ntasks:\n  - name: other\n    "
         "num_classes: 2");
  EXPECT_EQ(read().num_classes, 3);
  EXPECT_EQ(read().features.cols, 2);
  const Graph other = read_graph("graphbolt:" + folder_.path().string() + ",task=other");
  EXPECT_TRUE(other.splits.train.empty());
  expect_error([&] { read_graph("graphbolt:" + folder_.path().string() + ",task=none"); },
               {"no task 'none'", "other, node_classification"});
}

TEST_F(Graphbolt, RefusesAmbiguousFeatures) {
  change("name: feat", "name: first");
  EXPECT_EQ(read().features.cols, 2);
  change("    name: feat",
         "    name: first\n    format: numpy\n    path: a.npy\n  - domain: node\n    name: second");
  refuse({"first, second", "'feat'"});
}

TEST_F(Graphbolt, RefusesBadMetadata) {
  metadata("graph: [1, 2\n");
  refuse({"metadata.yaml:"});
  metadata("just text");
  refuse({"not a YAML mapping"});
  change("graph:\n", "structure:\n");
  refuse({"no field 'graph'"});
  change("num: 4", "num: four");
  refuse({"metadata.yaml:5", "'num'", "'four' is not a whole number"});
  change("num: 4", "num: -4");
  refuse({"-4 is negative"});
  change("    - num: 4", "    - {type: a, num: 4}\n    - {type: b, num: 2}");
  refuse({"metadata.yaml:11", "no field 'type'"});
  change("    - format: numpy\n      path: data/edges.npy",
         "    - format: torch\n      path: data/edges.npy");
  refuse({"metadata.yaml:7", "format 'torch'", "numpy"});
  change("num_classes: 3", "num_classes: 2");
  refuse({"node 0 has label 2", "2 classes"});
  change("name: seeds", "name: sets");
  refuse({"train_set has no 'seeds'"});
  std::filesystem::remove(folder_ / "metadata.yaml");
  refuse({"metadata.yaml", "no such file"});
}

TEST_F(Graphbolt, RefusesMisspeltFields) {
  change("    validation_set:", "    val_set:");
  refuse({"metadata.yaml:24", "no field 'val_set'", "Did you mean 'validation_set'?"});
  change("    train_set:", "    train:");
  refuse({"no field 'train'", "Did you mean 'train_set'?"});
  change("    test_set:", "    tst_set:");
  refuse({"no field 'tst_set'", "Did you mean 'test_set'?"});
  change("num_classes:", "num_clases:");
  refuse({"metadata.yaml:19", "a task has no field 'num_clases'", "'num_classes'"});
  change("feature_data:\n  - domain: node", "features_data:\n  - domain: node");
  refuse({"'features_data'", "'feature_data'"});
  change("tasks:", "task:");
  refuse({"'task'", "'tasks'"});
  change("    test_set:", "    train_set:");
  refuse({"metadata.yaml:28", "'train_set' twice"});
}

TEST_F(Graphbolt, KeepsToTheListsOfItsSpecification) {
  const std::string train = R"(    train_set:
      - data:
          - {name: seeds, format: numpy, in_memory: true, path: data/train_seeds.npy}
          - {name: labels, format: numpy, path: data/train_labels.npy}
)";
  change(train, "    train_set: data/train_seeds.npy\n");
  refuse({"metadata.yaml:20", "'train_set' is not a list"});
  change(train, "    train_set:\n");
  refuse({"'train_set' is not a list", "leave the field out"});
  change(train, "    train_set: [data]\n");
  refuse({"is not a mapping"});
  change(train, "");
  EXPECT_TRUE(read().splits.train.empty());
  change("feature_data:\n  - domain: node", "feature_data:\n    domain: node");
  refuse({"metadata.yaml"});
}

TEST_F(Graphbolt, RefusesPathsOutsideTheFolder) {
  const std::string elsewhere = (folder_ / "elsewhere/edges.npy").string();
  write_text(elsewhere, test::read_bytes(folder_ / "data/edges.npy"));
  test::TemporaryFolder other;
  write_text(other / "edges.npy", test::read_bytes(folder_ / "data/edges.npy"));
  const std::string up = "../" + other.path().filename().string() + "/edges.npy";
  const std::string absolute = (other / "edges.npy").string();
  for (const std::string& path : {absolute, up, std::string("data/../data/edges.npy")}) {
    change("path: data/edges.npy", "path: " + path);
    refuse({"metadata.yaml:8", path, "leads out of the dataset's folder", "--allow-outside-paths"});
    EXPECT_EQ(read({.allow_outside_paths = true}).structure.num_edges(), 4) << path;
  }
  for (const std::string& path : {elsewhere, std::string("/was/moved/elsewhere/edges.npy")}) {
    change("path: data/edges.npy", "path: " + path);
    EXPECT_EQ(read().structure.num_edges(), 4) << path;
  }
  metadata(kMetadata);
  std::filesystem::remove(folder_ / "data/edges.npy");
  std::filesystem::create_symlink(other / "edges.npy", folder_ / "data/edges.npy");
  EXPECT_EQ(read().structure.num_edges(), 4);  // who set up the folder made the link
}

TEST_F(Graphbolt, ReadsUtf8WithOrWithoutAByteOrderMark) {
  metadata(std::string("\xEF\xBB\xBF") + kMetadata);
  EXPECT_EQ(read().num_nodes(), 4);
  change("dataset_name: mini", "dataset_name: na\xefve");
  refuse({"metadata.yaml: byte 0xef at offset 16 is not UTF-8"});
  change("dataset_name: mini", "dataset_name: naïve");
  EXPECT_EQ(read().name, "naïve");
  metadata(std::string("\xff\xfeg\0r\0a\0p\0h\0:\0", 14));
  refuse({"metadata.yaml: byte 0xff at offset 0 is not UTF-8"});
  metadata(std::string("a\0\0\0:\0\0\0", 8));  // UTF-32 without a mark
  refuse({"metadata.yaml: byte 0x00 at offset 1"});
  metadata("a: \"\\ñ\"\n");  // the parser's message cuts the character
  refuse({"metadata.yaml:1", "\\xc3"});
}

TEST_F(Graphbolt, SkipsColumnNamesOfEdgesAndTakesNoEmptyFileForData) {
  const std::vector<NodeId> expected = read().structure.indices;
  change("format: numpy\n      path: data/edges.npy", "format: csv\n      path: data/edges.csv");
  write_text(folder_ / "data/edges.csv", "src,dst\n0,1\n1,2\n1,0\n2,1\n");
  EXPECT_EQ(read().structure.indices, expected);
  write_text(folder_ / "data/edges.csv", "eid;to;from\n0;1;0\n1;2;1\n2;0;1\n3;1;2\n");
  EXPECT_EQ(read().structure.indices, expected);
  write_text(folder_ / "data/edges.csv", "");
  refuse({"edges.csv: empty file (0 bytes)"});
  metadata(kMetadata);
  npy("edges", "");
  refuse({"edges.npy: empty file (0 bytes)"});
  npy("edges", npy_bytes<std::int64_t>("<i8", "(2, 0)", {}));
  npy("weight", npy_bytes<float>("<f4", "(0,)", {}));
  npy("test_seeds", npy_bytes<std::int64_t>("<i8", "(0,)", {}));
  npy("test_labels", npy_bytes<std::int64_t>("<i8", "(0,)", {}));
  const Graph graph = read();
  EXPECT_EQ(graph.structure.num_edges(), 0);
  EXPECT_TRUE(graph.splits.test.empty());
}

TEST_F(Graphbolt, RefusesMetadataThatNestWithoutEnd) {
  for (const std::string& opening :
       {std::string("["), std::string("{a: "), std::string("- "), std::string("? ")}) {
    std::string text = "graph: ";
    if (opening[0] == '-' || opening[0] == '?') text += "\n";
    for (int i = 0; i < 100'000; ++i) text += opening;
    metadata(text);
    refuse({"metadata.yaml"});
  }
}

TEST_F(Graphbolt, RefusesBadArrays) {
  npy("train_labels", npy_bytes<std::int64_t>("<i8", "(2,)", {1, 1}));
  refuse({"train_set", "2 labels for 1 seeds"});
  npy("train_labels", npy_bytes<std::int64_t>("<i8", "(1,)", {1}));
  npy("train_seeds", npy_bytes<std::int64_t>("<i8", "(1,)", {4}));
  refuse({"train_set holds node 4", "[0, 4)"});
  npy("train_seeds", npy_bytes<std::int64_t>("<i8", "(1,)", {0}));
  npy("train_labels", npy_bytes<std::int64_t>("<i8", "(1,)", {2}));
  refuse({"'train' and 'valid' overlap"});
  npy("train_seeds", npy_bytes<float>("<f4", "(1,)", {0}));
  refuse({"train_seeds.npy", "'f4'"});
  npy("feat", npy_bytes<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6}));
  refuse({"feat.npy", "3 rows", "4 nodes"});
  npy("feat", npy_bytes<float>("<f4", "(4, 2)", {1, 2, 3, 4, NAN, 6, 7, 8}));
  refuse({"feat.npy", "feature 0 of node 2", "nan"});
  npy("feat", npy_bytes<std::uint16_t>("<f2", "(4, 1)", {0, 0, 0x7c00, 0}));
  refuse({"feature 0 of node 2", "inf"});
  npy("feat", npy_bytes<double>("<f8", "(4, 1)", {0, 0, 0, 1e300}));
  refuse({"feature 0 of node 3", "inf"});
  npy("feat", npy_bytes<float>("<f4", "(2, 2, 2)", {1, 2, 3, 4, 5, 6, 7, 8}));
  refuse({"(2, 2, 2)"});
  npy("edges", npy_bytes<std::int64_t>("<i8", "(2, 4)", {0, 1, 1, 2, 1, 2, 0}));
  refuse({"edges.npy", "truncated"});
  npy("edges", "no npy");
  refuse({"edges.npy", "magic"});
  std::filesystem::remove(folder_ / "data/edges.npy");
  refuse({"edges.npy", "no such file"});
}

}  // namespace
}  // namespace strata::graph
