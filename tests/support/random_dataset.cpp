// SPDX-License-Identifier: Apache-2.0
#include "support/random_dataset.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/random.hpp"

namespace strata::test {
namespace {

template <typename T>
void put(std::byte*& out, T value) {
  std::memcpy(out, &value, sizeof(value));
  out += sizeof(value);
}

graph::CscGraph random_structure(const DatasetOptions& options, std::mt19937_64& random) {
  struct Edge {
    NodeId to, from;
    EdgeId id;
  };
  std::vector<Edge> edges;
  const auto node = [&] {
    return static_cast<NodeId>(random() % static_cast<std::uint64_t>(options.num_nodes));
  };
  for (EdgeId e = 0; e < options.num_edges; ++e) edges.push_back({node(), node(), e});
  std::ranges::sort(edges, {}, [](const Edge& e) { return std::tuple(e.to, e.from, e.id); });
  graph::CscGraph csc{.num_nodes = options.num_nodes,
                      .indptr = std::vector<Count>(at(options.num_nodes) + 1),
                      .indices = {},
                      .edge_ids = {},
                      .weights = {}};
  for (const Edge& e : edges) {
    ++csc.indptr[at(e.to) + 1];
    csc.indices.push_back(e.from);
    csc.edge_ids.push_back(e.id);
    csc.weights.push_back(static_cast<float>(e.id % 1000) / 16);
  }
  std::partial_sum(csc.indptr.begin(), csc.indptr.end(), csc.indptr.begin());
  return csc;
}

}  // namespace

RandomValues random_values(Count count, DType dtype, std::uint64_t seed) {
  RandomValues values;
  values.floats.reserve(at(count));
  values.bytes.resize(at(count) * size_of(dtype));
  std::byte* out = values.bytes.data();
  for (Count i = 0; i < count; ++i) {
    const auto small = static_cast<std::int32_t>(mix64(seed ^ mix64(static_cast<std::uint64_t>(i))) %
                                                 128);  // has no rounding error in any type
    const float fraction = static_cast<float>(small) / 8 - 4;
    const bool is_integer =
        dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f64;
    values.floats.push_back(is_integer ? static_cast<float>(small) : fraction);
    switch (dtype) {
      case DType::f32:
        put(out, fraction);
        break;
      case DType::f16:
        put(out, f32_to_f16(fraction));
        break;
      case DType::bf16:
        put(out, f32_to_bf16(fraction));
        break;
      case DType::f64:
        put(out, static_cast<double>(fraction));
        break;
      case DType::i8:
      case DType::u8:
        put(out, static_cast<std::int8_t>(small));
        break;
      case DType::i32:
        put(out, small);
        break;
      case DType::i64:
        put(out, std::int64_t{small});
        break;
    }
  }
  return values;
}

std::unique_ptr<graph::Graph> random_dataset(const DatasetOptions& options) {
  std::mt19937_64 random(options.seed);
  auto graph = std::make_unique<graph::Graph>();
  graph->name = "random";
  graph->structure = random_structure(options, random);
  auto table = std::make_shared<std::vector<std::byte>>(
      random_values(options.num_nodes * options.feature_cols, options.feature_dtype, options.seed + 1).bytes);
  graph->features = {.rows = options.num_nodes,
                     .cols = options.feature_cols,
                     .dtype = options.feature_dtype,
                     .data = table->data(),
                     .keep_alive = table};
  for (NodeId v = 0; v < options.num_nodes; ++v) {
    if (options.label_sets) {
      std::vector<std::int32_t> set = unlabelled_set(options.num_classes);
      if (random() % 6 > 0) std::ranges::fill(set, 0);
      for (Count c = 0; c < options.num_classes && !is_unlabelled(set.data(), options.num_classes); ++c) {
        if (random() % 3 == 0) add_class(set.data(), c);
      }
      graph->labels.insert(graph->labels.end(), set.begin(), set.end());
    } else if (options.with_labels) {
      graph->labels.push_back(
          static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(options.num_classes + 1)) - 1);
    }
    const auto draw = random() % 10;
    if (draw < 3) graph->splits.train.push_back(v);
    if (draw == 3) graph->splits.valid.push_back(v);
    if (draw == 4) graph->splits.test.push_back(v);
  }
  graph->num_classes = options.with_labels ? options.num_classes : 0;
  graph->multi_label = options.label_sets;
  return graph;
}

std::vector<float> features_as_floats(const graph::Graph& graph) {
  const graph::FeatureTable& table = graph.features;
  std::vector<float> floats(at(table.rows * table.cols));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    std::uint16_t half = 0;
    if (table.dtype == DType::f32) {
      std::memcpy(&floats[i], table.data + 4 * i, 4);
      continue;
    }
    std::memcpy(&half, table.data + 2 * i, 2);
    floats[i] = table.dtype == DType::f16 ? f16_to_f32(half) : bf16_to_f32(half);
  }
  return floats;
}

PartitionedDataset::PartitionedDataset(const graph::Graph& graph, int num_parts,
                                       const std::filesystem::path& directory, std::uint64_t seed,
                                       Count num_clusters)
    : directory_(directory) {
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directories(directory_);
  manifest_ = {.name = graph.name,
               .build_id = "0123456789abcdef",
               .book = {},
               .num_edges = graph.structure.num_edges(),
               .types = graph.types,
               .undirected = graph.undirected,
               .has_edge_weights = !graph.structure.weights.empty(),
               .feature_cols = graph.features.cols,
               .feature_dtype = graph.features.dtype,
               .num_classes = graph.num_classes,
               .has_labels = !graph.labels.empty(),
               .multi_label = graph.multi_label,
               .num_train = std::ssize(graph.splits.train),
               .num_valid = std::ssize(graph.splits.valid),
               .num_test = std::ssize(graph.splits.test),
               .num_clusters = num_clusters};
  original_of_.resize(at(graph.num_nodes()));
  std::iota(original_of_.begin(), original_of_.end(), 0);
  relabel(num_parts, seed);
  graph::PartitionRecord record{.manifest = manifest_, .parts = {}, .constraints = {}, .build = {}};
  for (int part = 0; part < num_parts; ++part) {
    const graph::PartData data = part_data(graph, part);
    std::vector<std::byte> rows;
    for (const NodeId original : data.original_ids) {
      const std::byte* row = graph.features.data + at(original) * graph.features.row_bytes();
      rows.insert(rows.end(), row, row + graph.features.row_bytes());
    }
    record.parts.push_back(graph::write_part(directory_, manifest_, data, rows));
  }
  graph::write_manifest(directory_, record);
}

PartitionedDataset::~PartitionedDataset() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void PartitionedDataset::relabel(int num_parts, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::ranges::shuffle(original_of_, random);
  std::vector<NodeId> offsets{0};
  for (int part = 1; part < num_parts; ++part) {
    offsets.push_back(static_cast<NodeId>(random() % (original_of_.size() + 1)));
  }
  offsets.push_back(std::ssize(original_of_));
  std::ranges::sort(offsets);
  manifest_.book = graph::PartitionBook(offsets);
  global_of_.resize(original_of_.size());
  for (std::size_t g = 0; g < original_of_.size(); ++g)
    global_of_[at(original_of_[g])] = static_cast<NodeId>(g);
}

graph::PartData PartitionedDataset::part_data(const graph::Graph& graph, int part) const {
  graph::PartData data;
  data.part = part;
  data.indptr = {0};
  const NodeId begin = manifest_.book.offsets()[at(part)];
  const NodeId end = manifest_.book.offsets()[at(part) + 1];
  for (NodeId global = begin; global < end; ++global) {
    const auto original = at(original_of(global));
    data.original_ids.push_back(static_cast<NodeId>(original));
    if (manifest_.num_clusters > 0)
      data.clusters.push_back(
          static_cast<std::int32_t>(static_cast<Count>(original) % manifest_.num_clusters));
    for (Count e = graph.structure.indptr[original]; e < graph.structure.indptr[original + 1]; ++e) {
      const auto edge = at(e);
      data.indices.push_back(global_of_[at(graph.structure.indices[edge])]);
      data.edge_ids.push_back(graph.structure.edge_ids[edge]);
      if (manifest_.has_edge_weights) data.weights.push_back(graph.structure.weights[edge]);
    }
    data.indptr.push_back(std::ssize(data.indices));
    if (!graph.labels.empty()) {
      const Count words = graph.label_words();
      const auto label = graph.labels.begin() + static_cast<std::ptrdiff_t>(original) * words;
      data.labels.insert(data.labels.end(), label, label + words);
    }
  }
  const auto split_rows = [&](const std::vector<NodeId>& nodes) {
    graph::PartData::SplitRows split;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      const NodeId global = global_of_[at(nodes[rank])];
      if (global < begin || global >= end) continue;
      split.rows.push_back(global - begin);
      split.ranks.push_back(static_cast<Count>(rank));
    }
    return split;
  };
  data.train = split_rows(graph.splits.train);
  data.valid = split_rows(graph.splits.valid);
  data.test = split_rows(graph.splits.test);
  return data;
}

}  // namespace strata::test
