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
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/label_sets.hpp"
#include "strata/util/log.hpp"
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

void write_features(const graph::FeatureTable& features, const fs::path& path, ScratchStore* scratch,
                    const StopFlag& stop) {
  const bool bf16 = features.dtype == DType::bf16;
  NpyWriter file(path, bf16 ? DType::f32 : features.dtype, {features.rows, features.cols});
  const Count values = features.rows * features.cols;
  if (bf16) {
    const auto* const bits = reinterpret_cast<const std::uint16_t*>(features.data);
    write_numbers<float>(
        file, values, [bits](Count i) { return bf16_to_f32(bits[i]); }, scratch, stop);
  } else {
    const std::size_t row_bytes = features.row_bytes();
    const Count rows_per_piece = std::max<Count>(1, (Count{8} << 20) / static_cast<Count>(row_bytes));
    for (Count row = 0; row < features.rows; row += rows_per_piece) {
      stop.check();
      const Count rows = std::min(rows_per_piece, features.rows - row);
      file.write(features.data + at(row) * row_bytes, at(rows) * row_bytes);
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

void write_labels(const graph::Graph& graph, const fs::path& path, const StopFlag& stop) {
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
  if (graph.features.cols > 0) write_features(graph.features, folder / "x.npy", lists.scratch, stop);
  if (!graph.labels.empty()) write_labels(graph, folder / "y.npy", stop);
  write_node_weights(graph, folder / "node_weight.npy");
  if (graph.features.cols == 0 && graph.labels.empty() && graph.node_weights.kinds == 0) {
    NpyWriter file(folder / "num_nodes.npy", DType::i64, {1});
    const Count nodes = graph.num_nodes();
    file.write(&nodes, sizeof nodes);
    file.close();
  }
  write_split(graph.splits.train, folder / "train.npy");
  write_split(graph.splits.valid, folder / "valid.npy");
  write_split(graph.splits.test, folder / "test.npy");
  if (!graph.node_names.empty()) write_file_atomically(folder / "names.txt", graph.node_names);
  if (before_publishing) before_publishing();
  staging.publish();
}

void write_npy_folder(const graph::Graph& graph, const fs::path& output, StopFlag& stop) {
  write_npy_folder(graph, lists_of(graph.structure), output, stop);
}

}  // namespace strata::partition
