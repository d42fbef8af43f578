// SPDX-License-Identifier: Apache-2.0
#include "sound_files.hpp"

#include <cstring>
#include <fstream>
#include <vector>

#include "strata/graph/manifest_file.hpp"
#include "strata/graph/npy.hpp"

namespace strata::fuzz {

namespace fs = std::filesystem;

const char* const kGraphboltMetadata = R"(dataset_name: mini
graph:
  nodes:
    - num: 4
  edges:
    - {type: null, format: numpy, path: data/edges.npy}
  feature_data:
    - {domain: edge, type: null, name: weight, format: numpy, path: data/weight.npy}
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
          - {name: seeds, format: numpy, in_memory: true, path: data/seeds.npy}
          - {name: labels, format: numpy, path: data/labels.npy}
    validation_set: [{data: [{format: numpy, path: data/valid.npy}, {format: numpy, path: data/sets.npy}]}]
    test_set: []
)";

const char* const kDglMetadata = R"({"graph_name": "mini",
 "node_type": ["paper"], "num_nodes_per_chunk": [[2, 2]],
 "edge_type": ["paper:cites:paper"], "num_edges_per_chunk": [[2, 1]],
 "edges": {"paper:cites:paper": {"format": {"name": "csv", "delimiter": " "}, "data": ["e0.csv", "e1.csv"]}},
 "node_data": {"paper": {"feat": {"format": {"name": "numpy"}, "data": ["x0.npy", "x1.npy"]},
  "label": {"format": {"name": "numpy"}, "data": ["y.npy"]},
  "train_mask": {"format": {"name": "numpy"}, "data": ["train.npy"]}}},
 "edge_data": {"paper:cites:paper": {"weight": {"format": {"name": "numpy"}, "data": ["w.npy"]}}}})";

namespace {

template <typename T>
void write(const fs::path& path, DType dtype, const std::vector<Count>& shape, const std::vector<T>& values) {
  graph::write_npy(path, dtype, shape, values.data());
}

}  // namespace

void write_graphbolt_arrays(const fs::path& folder) {
  const fs::path data = folder / "data";
  fs::create_directories(data);
  write<std::int64_t>(data / "edges.npy", DType::i64, {2, 4}, {0, 1, 1, 2, 1, 2, 0, 1});
  write<float>(data / "weight.npy", DType::f32, {4}, {0.5, 3, 0, 7});
  write<float>(data / "feat.npy", DType::f32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  write<std::int64_t>(data / "seeds.npy", DType::i64, {2}, {2, 0});
  write<std::int64_t>(data / "labels.npy", DType::i64, {2}, {1, 2});
  write<std::int32_t>(data / "valid.npy", DType::i32, {1}, {1});
  write<std::uint8_t>(data / "sets.npy", DType::u8, {1, 3}, {0, 1, 1});
}

void write_dgl_chunks(const fs::path& folder) {
  std::ofstream(folder / "e0.csv") << "0 1\n2 1\n";
  std::ofstream(folder / "e1.csv") << "3 0\n";
  write<float>(folder / "x0.npy", DType::f32, {2, 2}, {1, 2, 3, 4});
  write<float>(folder / "x1.npy", DType::f32, {2, 2}, {5, 6, 7, 8});
  write<std::int64_t>(folder / "y.npy", DType::i64, {4}, {1, 0, 1, 0});
  write<std::uint8_t>(folder / "train.npy", DType::u8, {4}, {1, 0, 0, 1});
  write<float>(folder / "w.npy", DType::f32, {3}, {1, 2, 3});
}

void write_igb(const fs::path& folder) {
  for (const char* const file : kIgbFiles) fs::create_directories((folder / file).parent_path());
  write<float>(folder / kIgbFiles[0], DType::f32, {3, 2}, {1, 2, 3, 4, 5, 6});
  write<float>(folder / kIgbFiles[1], DType::f32, {3}, {1, 0, 18});
  write<std::int64_t>(folder / kIgbFiles[2], DType::i64, {4, 2}, {0, 1, 2, 1, 1, 2, 1, 0});
}

void write_triples(const fs::path& folder) {
  std::ofstream(folder / kTripleFiles[0]) << "3\n0 1 0\n2 1 1\n1 0 0\n";
  std::ofstream(folder / kTripleFiles[1]) << "3\na\t0\nb c\t1\nd\t2\n";
  std::ofstream(folder / kTripleFiles[2]) << "2\n/in\t0\n/of\t1\n";
}

void write_partition(const fs::path& folder) {
  const graph::Manifest manifest{.name = "mini",
                                 .build_id = "00000000deadbeef",
                                 .book = graph::PartitionBook{{0, 4}},
                                 .num_edges = 5,
                                 .undirected = false,
                                 .has_edge_weights = true,
                                 .feature_cols = 3,
                                 .feature_dtype = DType::f32,
                                 .num_classes = 3,
                                 .has_labels = true,
                                 .num_train = 2,
                                 .num_valid = 0,
                                 .num_test = 1,
                                 .num_clusters = 2};
  const graph::PartData data{.part = 0,
                             .indptr = {0, 2, 3, 5, 5},
                             .indices = {1, 2, 0, 1, 3},
                             .edge_ids = {0, 1, 2, 3, 4},
                             .weights = {1, 0.5, 2, 0, 3},
                             .original_ids = {3, 1, 0, 2},
                             .labels = {0, 2, -1, 1},
                             .clusters = {1, 0, 1, 1},
                             .train = {{1, 0}, {0, 1}},
                             .valid = {},
                             .test = {{3}, {0}}};
  std::vector<std::byte> features(4 * 3 * sizeof(float));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::memcpy(features.data(), values.data(), features.size());
  graph::PartitionRecord record{
      .manifest = manifest,
      .parts = {graph::write_part(folder, manifest, data, features)},
      .constraints = {{"nodes", true, 0.03, {4}}},
      .build = {
          .program = "strata-partition", .input = "ogb:mini", .method = "range", .seed = 7, .cleaning = {}}};
  graph::write_manifest(folder, record);
}

}  // namespace strata::fuzz
