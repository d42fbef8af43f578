// SPDX-License-Identifier: Apache-2.0
#include "output/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "output/staging.hpp"
#include "strata/graph/npy.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/label_sets.hpp"
#include "strata/util/log.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;

constexpr Count kElementsPerPiece = Count{1} << 20;

/// A file that is written from its beginning to its end. An owner.
class NpyWriter {
 public:
  NpyWriter(const fs::path& path, DType dtype, const std::vector<Count>& shape)
      : path_(path),
        file_(std::fopen(path.c_str(), "wb")),
        progress_("write " + path.stem().string(),
                  std::accumulate(shape.begin(), shape.end(), static_cast<Count>(size_of(dtype)),
                                  std::multiplies<>()),
                  "bytes") {
    if (file_ == nullptr) fail();
    const std::string header = graph::npy_header(dtype, shape);
    if (std::fwrite(header.data(), 1, header.size(), file_) != header.size()) fail();
  }
  ~NpyWriter() {
    if (file_ != nullptr) std::fclose(file_);
  }
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void write(const void* data, std::size_t bytes) {
    if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail();
    progress_.advance(static_cast<std::int64_t>(bytes));
  }
  void close() {
    std::FILE* const file = std::exchange(file_, nullptr);
    if (std::fclose(file) != 0) fail();
    sync_to_disk(path_);
  }

 private:
  [[noreturn]] void fail() const {
    const int code = errno;
    throw IoError(fmt::format("{}: cannot be written: {}", path_.string(), std::strerror(code)),
                  code == ENOSPC ? "Free some disk space." : "Check the folder and its permissions.");
  }

  fs::path path_;
  std::FILE* file_;
  ProgressBar progress_;
};

/// Writes `count` numbers, value(i) for each i, perhaps from scratch files.
template <typename T>
void write_numbers(NpyWriter& file, Count count, const std::function<T(Count)>& value, ScratchStore* scratch,
                   const StopFlag& stop) {
  std::vector<T> piece;
  for (Count begin = 0; begin < count; begin += kElementsPerPiece) {
    stop.check();
    const Count end = std::min(count, begin + kElementsPerPiece);
    piece.resize(at(end - begin));
    for (Count i = begin; i < end; ++i) piece[at(i - begin)] = value(i);
    file.write(piece.data(), piece.size() * sizeof(T));
    if (scratch != nullptr) scratch->trim();
  }
}

template <typename Id>
void write_edges(const graph::ListsView& lists, const fs::path& path, const StopFlag& stop) {
  NpyWriter file(path, sizeof(Id) == 4 ? DType::i32 : DType::i64, {2, lists.num_edges()});
  lists.indices.visit([&](const auto* sources) {
    write_numbers<Id>(
        file, lists.num_edges(), [&](Count e) { return static_cast<Id>(sources[e]); }, lists.scratch, stop);
  });
  NodeId destination = 0;
  write_numbers<Id>(
      file, lists.num_edges(),
      [&](Count e) {
        while (lists.indptr[at(destination) + 1] <= e) ++destination;
        return static_cast<Id>(destination);
      },
      lists.scratch, stop);
  file.close();
}

/// Writes the first `cols` columns of some rows.
void write_features(const graph::FeatureTable& features, Range rows, Count cols, const fs::path& path,
                    ScratchStore* scratch, const StopFlag& stop) {
  const bool bf16 = features.dtype == DType::bf16;
  NpyWriter file(path, bf16 ? DType::f32 : features.dtype, {rows.count, cols});
  if (bf16) {
    const auto* const bits = reinterpret_cast<const std::uint16_t*>(features.data);
    write_numbers<float>(
        file, rows.count * cols,
        [&](Count i) { return bf16_to_f32(bits[(rows.first + i / cols) * features.cols + i % cols]); },
        scratch, stop);
  } else {
    const std::size_t row_bytes = features.row_bytes(), written = at(cols) * size_of(features.dtype);
    const Count most = std::max<Count>(1, (Count{8} << 20) / static_cast<Count>(row_bytes));
    const Count rows_per_piece = written == row_bytes ? most : 1;
    for (Count row = rows.first; row < rows.end(); row += rows_per_piece) {
      stop.check();
      const Count count = std::min(rows_per_piece, rows.end() - row);
      file.write(features.data + at(row) * row_bytes, at(count) * written);
      if (scratch != nullptr) scratch->trim();
    }
  }
  file.close();
}

/// Writes sets of classes as a matrix of 0 and 1; nodes without a label have a row of -1.
void write_label_sets(const graph::Graph& graph, const fs::path& path, const StopFlag& stop) {
  const Count classes = graph.num_classes;
  NpyWriter file(path, DType::i8, {graph.num_nodes(), classes});
  write_numbers<std::int8_t>(
      file, graph.num_nodes() * classes,
      [&](Count i) -> std::int8_t {
        const std::int32_t* const words = graph.labels.data() + i / classes * graph.label_words();
        return is_unlabelled(words, classes) ? -1 : has_class(words, i % classes);
      },
      nullptr, stop);
  file.close();
}

void write_targets(const graph::Graph& graph, const fs::path& path) {
  std::vector<Count> shape{graph.num_nodes()};
  if (graph.target_cols > 1) shape.push_back(graph.target_cols);
  NpyWriter file(path, DType::f32, shape);
  file.write(graph.labels.data(), graph.labels.size() * sizeof(std::int32_t));
  file.close();
}

const char* name_of_labels(const graph::Graph& graph) {
  return graph.target_cols > 0 ? "targets.npy" : "y.npy";
}

void write_labels(const graph::Graph& graph, const fs::path& path, const StopFlag& stop) {
  if (graph.target_cols > 0) return write_targets(graph, path);
  if (graph.multi_label) return write_label_sets(graph, path, stop);
  NpyWriter file(path, DType::i32, {graph.num_nodes()});
  file.write(graph.labels.data(), graph.labels.size() * sizeof(std::int32_t));
  file.close();
}

void write_node_weights(const graph::Graph& graph, const fs::path& path) {
  const graph::NodeWeights& weights = graph.node_weights;
  if (weights.kinds == 0) return;
  std::vector<Count> shape{graph.num_nodes()};
  if (weights.kinds > 1) shape.push_back(weights.kinds);
  NpyWriter file(path, DType::i32, shape);
  file.write(weights.values.data(), weights.values.size() * sizeof(std::int32_t));
  file.close();
}

void write_split(const std::vector<NodeId>& nodes, const fs::path& path) {
  if (nodes.empty()) return;
  NpyWriter file(path, DType::i64, {std::ssize(nodes)});
  file.write(nodes.data(), nodes.size() * sizeof(NodeId));
  file.close();
}

void write_number_of_nodes(Count nodes, const fs::path& folder) {
  NpyWriter file(folder / "num_nodes.npy", DType::i64, {1});
  file.write(&nodes, sizeof nodes);
  file.close();
}

void write_splits(const graph::Splits& splits, const fs::path& folder) {
  write_split(splits.train, folder / "train.npy");
  write_split(splits.valid, folder / "valid.npy");
  write_split(splits.test, folder / "test.npy");
}

void write_arrays(const graph::Graph& graph, const graph::ListsView& lists, const fs::path& folder,
                  const StopFlag& stop) {
  if (graph.num_nodes() > std::numeric_limits<std::int32_t>::max())
    write_edges<std::int64_t>(lists, folder / "edge_index.npy", stop);
  else
    write_edges<std::int32_t>(lists, folder / "edge_index.npy", stop);
  if (!lists.weights.empty()) {
    NpyWriter file(folder / "edge_weight.npy", DType::f32, {lists.num_edges()});
    write_numbers<float>(
        file, lists.num_edges(), [&](Count e) { return lists.weights[at(e)]; }, lists.scratch, stop);
    file.close();
  }
  const Count cols = graph.features.cols;
  if (cols > 0)
    write_features(graph.features, {0, graph.features.rows}, cols, folder / "x.npy", lists.scratch, stop);
  if (!graph.labels.empty()) write_labels(graph, folder / name_of_labels(graph), stop);
  write_node_weights(graph, folder / "node_weight.npy");
  if (cols == 0 && graph.labels.empty() && graph.node_weights.kinds == 0)
    write_number_of_nodes(graph.num_nodes(), folder);
  write_splits(graph.splits, folder);
}

bool has_a_label(const graph::Graph& graph) {
  const LabelShape shape = graph.label_shape();
  for (Count v = 0; v < graph.num_nodes() && !graph.labels.empty(); ++v)
    if (!shape.is_missing(graph.labels.data() + v * shape.words())) return true;
  return false;
}

fs::path make_folder(const fs::path& parent, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
    throw InputError(fmt::format("no folder can have the name '{}' of a type or relation", printable(name)),
                     "Keep the input; convert writes a folder for each type and relation.");
  fs::create_directories(parent / name);
  return parent / name;
}

/// The edges of a relation in the order of their ids; both ends count within their types. Repeated edges that
/// were removed have left ids without edges, which the arrays do not keep.
struct RelationArrays {
  std::vector<NodeId> sources, destinations;
  std::vector<float> weights;  ///< empty: none

  static constexpr NodeId kNone = -1;

  void drop_missing() {
    std::size_t kept = 0;
    for (std::size_t e = 0; e < sources.size(); ++e) {
      if (sources[e] == kNone) continue;
      sources[kept] = sources[e];
      destinations[kept] = destinations[e];
      if (!weights.empty()) weights[kept] = weights[e];
      ++kept;
    }
    sources.resize(kept);
    destinations.resize(kept);
    if (!weights.empty()) weights.resize(kept);
  }
};

RelationArrays arrays_of(const graph::ListsView& lists, Range edges, NodeId first_source,
                         Range destinations) {
  RelationArrays arrays{.sources = std::vector<NodeId>(at(edges.count), RelationArrays::kNone),
                        .destinations = std::vector<NodeId>(at(edges.count)),
                        .weights = std::vector<float>(lists.weights.empty() ? 0 : at(edges.count))};
  const auto take = [&](NodeId v, Count e, NodeId source) {
    const EdgeId edge = (lists.edge_ids.size == 0 ? e : lists.edge_ids[e]) - edges.first;
    if (edge < 0 || edge >= edges.count) return;
    arrays.sources[at(edge)] = source - first_source;
    arrays.destinations[at(edge)] = v - destinations.first;
    if (!arrays.weights.empty()) arrays.weights[at(edge)] = lists.weights[at(e)];
  };
  lists.indices.visit([&](const auto* sources) {
    for (NodeId v = destinations.first; v < destinations.end(); ++v)
      for (Count e = lists.indptr[at(v)]; e < lists.indptr[at(v) + 1]; ++e) take(v, e, sources[e]);
  });
  arrays.drop_missing();
  return arrays;
}

void write_relation(const RelationArrays& edges, const fs::path& folder, const StopFlag& stop) {
  stop.check();
  const Count count = std::ssize(edges.sources);
  NpyWriter file(folder / "edge_index.npy", DType::i64, {2, count});
  file.write(edges.sources.data(), edges.sources.size() * sizeof(NodeId));
  file.write(edges.destinations.data(), edges.destinations.size() * sizeof(NodeId));
  file.close();
  if (edges.weights.empty()) return;
  NpyWriter weight_file(folder / "edge_weight.npy", DType::f32, {count});
  weight_file.write(edges.weights.data(), edges.weights.size() * sizeof(float));
  weight_file.close();
}

void write_types(const graph::Graph& graph, const graph::ListsView& lists, const fs::path& folder,
                 const StopFlag& stop) {
  const graph::GraphTypes& types = graph.types;
  const auto ids_of = [&](std::size_t t) { return graph::nodes_of_type(types, t, graph.num_nodes()); };
  for (std::size_t t = 0; t < types.nodes.size(); ++t) {
    const fs::path place = make_folder(folder / "nodes", types.nodes[t]);
    const Count cols = types.feature_cols.empty() ? graph.features.cols : types.feature_cols[t];
    if (cols > 0) write_features(graph.features, ids_of(t), cols, place / "x.npy", lists.scratch, stop);
    const graph::Graph type = graph::nodes_of(graph, t);
    if (has_a_label(type)) write_labels(type, place / name_of_labels(graph), stop);
    write_number_of_nodes(type.num_nodes(), place);
    write_splits(type.splits, place);
  }
  const auto nodes_called = [&](const std::string& type) {
    return ids_of(static_cast<std::size_t>(std::ranges::find(types.nodes, type) - types.nodes.begin()));
  };
  for (std::size_t r = 0; r < types.edges.size(); ++r) {
    const graph::EdgeType& type = types.edges[r];
    const fs::path place = make_folder(folder / "edges", graph::joined_name_of(type));
    const Range edges = graph::edges_of_relation(types, r, lists.num_edges());
    write_relation(arrays_of(lists, edges, nodes_called(type.source).first, nodes_called(type.destination)),
                   place, stop);
  }
}

void check_disk(const fs::path& folder, const graph::Graph& graph, const graph::ListsView& lists) {
  const Count id_bytes = graph.num_nodes() > std::numeric_limits<std::int32_t>::max() ? 8 : 4;
  const Count wanted = lists.num_edges() * (2 * id_bytes + (lists.weights.empty() ? 0 : 4)) +
                       graph.num_nodes() * 4 * (graph.features.cols + 1 + graph.node_weights.kinds);
  if (const Count room = free_disk_bytes(folder); room < wanted)
    throw IoError(fmt::format("{}: the disk is full: the arrays take up to {}, {} are free", folder.string(),
                              format_bytes(wanted), format_bytes(room)),
                  "Free some space, or choose another folder.");
}

constexpr Existing kTarget{.name = "npy:", .replace = false, .can_replace = false};

}  // namespace

void check_npy_target(const fs::path& output) { refuse_output(output, kTarget); }

void write_npy_folder(const graph::Graph& graph, const graph::ListsView& lists, const fs::path& output,
                      StopFlag& stop, const std::function<void()>& before_publishing) {
  StagingDirectory staging(output, kTarget, stop);
  check_disk(staging.path(), graph, lists);
  const fs::path& folder = staging.path();
  if (graph.types.several())
    write_types(graph, lists, folder, stop);
  else
    write_arrays(graph, lists, folder, stop);
  if (!graph.node_names.empty()) write_file_atomically(folder / "names.txt", graph.node_names);
  if (before_publishing) before_publishing();
  staging.publish();
}

void write_npy_folder(const graph::Graph& graph, const fs::path& output, StopFlag& stop) {
  write_npy_folder(graph, lists_of(graph.structure), output, stop);
}

}  // namespace strata::partition
