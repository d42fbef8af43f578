// SPDX-License-Identifier: Apache-2.0
#include "parts/whole_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "clean_lists.hpp"
#include "readers/columns.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"
#include "strata/util/progress.hpp"

namespace strata::graph {
namespace {

constexpr Count kRowsPerPiece = 8 * kMostBlockRows;

class WholeGraph {
 public:
  WholeGraph(const PartsOrigin& origin, ThreadPool& pool)
      : origin_(origin),
        pool_(pool),
        manifest_(read_manifest(origin)),
        has_edge_ids_(std::holds_alternative<std::filesystem::path>(origin)) {}

  Graph read() {
    check_memory();
    graph_.name = manifest_.name;
    graph_.undirected = manifest_.undirected;
    graph_.num_classes = manifest_.num_classes;
    graph_.multi_label = manifest_.multi_label;
    read_ids();
    read_lists();
    read_rows();
    for (const auto split : {PartReader::Split::train, PartReader::Split::valid, PartReader::Split::test})
      read_split(split);
    graph_.cleaning = report_of(clean_lists(graph_.structure, kKeepAll, pool_), kKeepAll);
    return std::move(graph_);
  }

 private:
  static constexpr CleanPolicies kKeepAll{.duplicates = EdgePolicy::keep, .self_loops = EdgePolicy::keep};

  void check_memory() const {
    const Count edge_bytes = 8 + (has_edge_ids_ ? 8 : 0) + (manifest_.has_edge_weights ? 4 : 0);
    const Count row_bytes = manifest_.feature_cols * static_cast<Count>(size_of(manifest_.feature_dtype)) +
                            4 * manifest_.label_words();
    const Count wanted = manifest_.num_edges * edge_bytes + manifest_.book.num_nodes() * (row_bytes + 16);
    if (const Count free = available_host_bytes(); wanted > free)
      throw OutOfMemory(fmt::format("{}: no room for the whole graph: wanted {}, free {}", name_of(origin_),
                                    format_bytes(wanted), format_bytes(free)),
                        "Use a host with more memory.");
  }

  /// Calls visit(reader, first global id) for every part in turn.
  template <typename Visit>
  void for_each_part(Visit&& visit) {
    for (int part = 0; part < manifest_.book.num_parts(); ++part)
      visit(PartReader::open(origin_, manifest_, part),
            manifest_.book.offsets()[static_cast<std::size_t>(part)]);
  }

  /// The original id of every global id, and the lengths of the lists by original id.
  void read_ids() {
    const Count nodes = manifest_.book.num_nodes();
    original_.resize(static_cast<std::size_t>(nodes));
    graph_.structure.num_nodes = nodes;
    std::vector<Count>& indptr = graph_.structure.indptr;
    indptr.assign(static_cast<std::size_t>(nodes) + 1, 0);
    std::vector<Count> begins;
    for_each_part([&](const PartReader& part, NodeId first) {
      NodeId* const ids = original_.data() + first;
      part.read_original_ids(0, part.num_inner(), ids);
      begins.resize(static_cast<std::size_t>(part.num_inner()) + 1);
      part.read_indptr(0, std::ssize(begins), begins.data());
      for (Count row = 0; row < part.num_inner(); ++row) {
        if (ids[row] < 0 || ids[row] >= nodes) refuse_id(ids[row]);
        indptr[static_cast<std::size_t>(ids[row]) + 1] =
            begins[static_cast<std::size_t>(row) + 1] - begins[static_cast<std::size_t>(row)];
      }
    });
    for (std::size_t v = 1; v < indptr.size(); ++v) indptr[v] += indptr[v - 1];
    if (indptr.back() != manifest_.num_edges) refuse_id(-1);
  }

  [[noreturn]] void refuse_id(NodeId id) const {
    throw InputError(fmt::format("{}: the parts do not make one graph (node {})", name_of(origin_), id),
                     "Run strata-partition verify, and build the parts again.");
  }

  void read_lists() {
    CscGraph& graph = graph_.structure;
    graph.indices.resize(static_cast<std::size_t>(manifest_.num_edges));
    if (has_edge_ids_) graph.edge_ids.resize(graph.indices.size());
    if (manifest_.has_edge_weights) graph.weights.resize(graph.indices.size());
    ProgressBar progress("read lists", manifest_.book.num_nodes(), "nodes");
    for_each_part([&](const PartReader& part, NodeId first) {
      pool_.parallel_for(part.num_inner(), kRowsPerPiece, [&](Count begin, Count end) {
        read_run(part, first, begin, end);
        progress.advance(end - begin);
      });
    });
  }

  /// Reads the lists of rows [begin, end) of a part and puts each where its original id wants it.
  void read_run(const PartReader& part, NodeId first, Count begin, Count end) {
    std::vector<Count> indptr(static_cast<std::size_t>(end - begin) + 1);
    part.read_indptr(begin, std::ssize(indptr), indptr.data());
    const Count edges = indptr.back() - indptr.front();
    std::vector<NodeId> indices(static_cast<std::size_t>(edges));
    part.read_indices(indptr.front(), edges, indices.data());
    std::vector<EdgeId> edge_ids(has_edge_ids_ ? indices.size() : 0);
    if (has_edge_ids_) part.read_edge_ids(indptr.front(), edges, edge_ids.data());
    std::vector<float> weights(manifest_.has_edge_weights ? indices.size() : 0);
    if (manifest_.has_edge_weights) part.read_weights(indptr.front(), edges, weights.data());
    for (NodeId& id : indices) {
      if (id < 0 || id >= manifest_.book.num_nodes()) refuse_id(id);
      id = original_[static_cast<std::size_t>(id)];
    }
    CscGraph& graph = graph_.structure;
    for (Count row = begin; row < end; ++row) {
      const Count from = indptr[static_cast<std::size_t>(row - begin)] - indptr.front(),
                  count = indptr[static_cast<std::size_t>(row - begin) + 1] - indptr.front() - from;
      const Count to =
          graph.indptr[static_cast<std::size_t>(original_[static_cast<std::size_t>(first + row)])];
      std::copy_n(indices.begin() + from, count, graph.indices.begin() + to);
      if (has_edge_ids_) std::copy_n(edge_ids.begin() + from, count, graph.edge_ids.begin() + to);
      if (!weights.empty()) std::copy_n(weights.begin() + from, count, graph.weights.begin() + to);
      // The lists of planted parts are ordered by community; they have nothing that belongs to their entries.
      if (!has_edge_ids_) std::sort(graph.indices.begin() + to, graph.indices.begin() + to + count);
    }
  }

  void read_rows() {
    const Count nodes = manifest_.book.num_nodes(), words = manifest_.label_words();
    FeatureMemory features;
    if (manifest_.feature_cols > 0)
      features = allocate_features(nodes, manifest_.feature_cols, manifest_.feature_dtype);
    if (manifest_.has_labels) graph_.labels.resize(static_cast<std::size_t>(nodes * words));
    for_each_part([&](const PartReader& part, NodeId first) {
      pool_.parallel_for(part.num_inner(), kMostBlockRows, [&](Count begin, Count end) {
        read_run_of_rows(part, first, begin, end, features);
      });
    });
    graph_.features = std::move(features.table);
  }

  void read_run_of_rows(const PartReader& part, NodeId first, Count begin, Count end,
                        const FeatureMemory& features) {
    const Count words = manifest_.label_words();
    std::vector<std::int32_t> labels(
        static_cast<std::size_t>(manifest_.has_labels ? (end - begin) * words : 0));
    if (manifest_.has_labels) part.read_labels(begin, end - begin, labels.data());
    const std::size_t row_bytes = features.bytes == nullptr ? 0 : features.table.row_bytes();
    std::vector<std::byte> rows(static_cast<std::size_t>(end - begin) * row_bytes);
    if (row_bytes > 0) part.read_features(begin, end - begin, rows.data());
    for (Count row = begin; row < end; ++row) {
      const NodeId node = original_[static_cast<std::size_t>(first + row)];
      const auto at = static_cast<std::size_t>(row - begin);
      if (!labels.empty())
        std::copy_n(labels.begin() + static_cast<std::ptrdiff_t>(at) * words, words,
                    graph_.labels.begin() + node * words);
      if (row_bytes > 0)
        std::memcpy(features.bytes + static_cast<std::size_t>(node) * row_bytes, rows.data() + at * row_bytes,
                    row_bytes);
    }
  }

  void read_split(PartReader::Split split) {
    std::vector<NodeId>& nodes = split == PartReader::Split::train   ? graph_.splits.train
                                 : split == PartReader::Split::valid ? graph_.splits.valid
                                                                     : graph_.splits.test;
    for_each_part([&](const PartReader& part, NodeId first) {
      for (const Count row : part.read_split(split).rows) {
        if (row < 0 || row >= part.num_inner()) refuse_id(row);
        nodes.push_back(original_[static_cast<std::size_t>(first + row)]);
      }
    });
    std::ranges::sort(nodes);
  }

  const PartsOrigin& origin_;
  ThreadPool& pool_;
  Manifest manifest_;
  bool has_edge_ids_;
  std::vector<NodeId> original_;
  Graph graph_;
};

}  // namespace

Graph read_whole_graph(const PartsOrigin& origin, ThreadPool& pool) {
  return WholeGraph(origin, pool).read();
}

}  // namespace strata::graph
