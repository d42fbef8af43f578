// SPDX-License-Identifier: Apache-2.0
#include "parts/whole_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "clean_lists.hpp"
#include "readers/columns.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr Count kPartRowsPerPiece = 8 * kMostBlockRows;
constexpr Count kEdgesPerRead = Count{1} << 19;  // or one list

/// The list of one node, with what belongs to its entries.
struct NodeList {
  std::span<NodeId> sources;  ///< original ids
  std::span<const EdgeId> edge_ids;
  std::span<const float> weights;
};

/// Lists that go to scratch files, each to its place.
class StoredTarget {
 public:
  struct Shape {
    Count edges = 0;
    bool wide_nodes = false, edge_ids = false, wide_edge_ids = false, weights = false;
  };
  StoredTarget(const Shape& shape, ScratchStore& scratch)
      : shape_(shape), sources_(scratch), edge_ids_(scratch), weights_(scratch) {
    const auto edges = static_cast<std::size_t>(shape.edges);
    sources_.reserve(edges * width(shape.wide_nodes));
    if (shape.edge_ids) edge_ids_.reserve(edges * width(shape.wide_edge_ids));
    if (shape.weights) weights_.reserve(edges * sizeof(float));
  }

  void put(Count first, const NodeList& list) const {
    write(sources_, shape_.wide_nodes, first, list.sources);
    write(edge_ids_, shape_.wide_edge_ids, first, list.edge_ids);
    weights_.write_at(static_cast<std::size_t>(first) * sizeof(float), list.weights.data(),
                      list.weights.size_bytes());
  }

  StoredLists finish(std::vector<Count> indptr) && {
    StoredLists lists{.indptr = std::move(indptr)};
    lists.indices_memory = std::move(sources_).map();
    lists.indices = {lists.indices_memory.get(), shape_.edges, shape_.wide_nodes};
    if (shape_.edge_ids) {
      lists.edge_ids_memory = std::move(edge_ids_).map();
      lists.edge_ids = {lists.edge_ids_memory.get(), shape_.edges, shape_.wide_edge_ids};
    }
    if (shape_.weights) lists.weights = {std::move(weights_).map(), shape_.edges};
    return lists;
  }

 private:
  static std::size_t width(bool wide) { return wide ? sizeof(std::int64_t) : sizeof(std::int32_t); }

  static void write(const ScratchFile& file, bool wide, Count first, std::span<const std::int64_t> ids) {
    const std::size_t place = static_cast<std::size_t>(first) * width(wide);
    if (wide) return file.write_at(place, ids.data(), ids.size_bytes());
    const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
    file.write_at(place, narrow.data(), narrow.size() * sizeof(std::int32_t));
  }

  Shape shape_;
  ScratchFile sources_, edge_ids_, weights_;
};

/// The type of features in memory: compressed ones become floats.
DType type_in_memory(const Manifest& manifest) {
  return manifest.feature_code ? DType::f32 : manifest.feature_dtype;
}

/// Rows that go to their places in memory or in a scratch file.
class FeatureTarget {
 public:
  FeatureTarget(Count rows, const Manifest& manifest, ScratchStore* scratch) {
    const DType dtype = type_in_memory(manifest);
    if (scratch == nullptr) {
      memory_ = allocate_features(rows, manifest.feature_cols, dtype);
      return;
    }
    memory_.table = {.rows = rows, .cols = manifest.feature_cols, .dtype = dtype, .keep_alive = {}};
    file_.emplace(*scratch);
    file_->reserve(static_cast<std::size_t>(rows) * row_bytes());
  }

  std::size_t row_bytes() const { return memory_.table.row_bytes(); }
  void put(NodeId node, const std::byte* row) const {
    const std::size_t place = static_cast<std::size_t>(node) * row_bytes();
    if (file_)
      file_->write_at(place, row, row_bytes());
    else
      std::memcpy(memory_.bytes + place, row, row_bytes());
  }
  FeatureTable finish() && {
    if (!file_) return std::move(memory_.table);
    const std::shared_ptr<std::byte> mapped = std::move(*file_).map();
    memory_.table.data = mapped.get();
    memory_.table.keep_alive = mapped;
    return std::move(memory_.table);
  }

 private:
  FeatureMemory memory_;
  std::optional<ScratchFile> file_;
};

class WholeGraph {
 public:
  WholeGraph(const PartsOrigin& origin, Assembly& assembly)
      : origin_(origin),
        assembly_(assembly),
        pool_(assembly.pool),
        manifest_(read_manifest(origin)),
        ranges_(manifest_.types),
        has_edge_ids_(std::holds_alternative<std::filesystem::path>(origin)) {}

  Graph read() {
    if (assembly_.scratch == nullptr) check_memory();
    graph_.name = manifest_.name;
    graph_.types = manifest_.types;
    graph_.undirected = manifest_.undirected;
    graph_.num_classes = manifest_.num_classes;
    graph_.multi_label = manifest_.multi_label;
    graph_.target_cols = std::ssize(manifest_.targets);
    read_ids();
    read_lists();
    if (!stored_) graph_.structure.sublists = sublists_of(graph_.structure, graph_.types);
    read_rows();
    for (const auto split : {Split::train, Split::valid, Split::test}) read_split(split);
    graph_.edge_splits = read_edge_splits(origin_, manifest_);
    const ListCounts met{.entries = manifest_.num_edges,
                         .self_loops = self_loops_,
                         .duplicates = duplicates_,
                         .duplicate_loops = duplicate_loops_};
    graph_.cleaning = report_of(met, {.duplicates = EdgePolicy::keep, .self_loops = EdgePolicy::keep});
    return std::move(graph_);
  }

 private:
  void check_memory() const {
    const Count edge_bytes = 8 + (has_edge_ids_ ? 8 : 0) + (manifest_.has_edge_weights ? 4 : 0);
    const Count row_bytes = manifest_.feature_cols * static_cast<Count>(size_of(type_in_memory(manifest_))) +
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
    const Count edges = manifest_.num_edges;
    if (assembly_.scratch != nullptr) {
      stored_.emplace(StoredTarget::Shape{.edges = edges,
                                          .wide_nodes = graph.num_nodes - 1 > kMostNarrow,
                                          .edge_ids = has_edge_ids_,
                                          .wide_edge_ids = has_edge_ids_ && has_wide_edge_ids(),
                                          .weights = manifest_.has_edge_weights},
                      *assembly_.scratch);
    } else {
      graph.indices.resize(static_cast<std::size_t>(edges));
      if (has_edge_ids_) graph.edge_ids.resize(graph.indices.size());
      if (manifest_.has_edge_weights) graph.weights.resize(graph.indices.size());
    }
    ProgressBar progress("read lists", manifest_.book.num_nodes(), "nodes");
    for_each_part([&](const PartReader& part, NodeId first) {
      pool_.parallel_for(part.num_inner(), kPartRowsPerPiece, [&](Count begin, Count end) {
        read_run(part, first, begin, end);
        progress.advance(end - begin);
      });
    });
    if (stored_) assembly_.lists = std::move(*stored_).finish(std::exchange(graph.indptr, {}));
  }

  bool has_wide_edge_ids() {
    std::atomic<bool> wide{false};
    for_each_part([&](const PartReader& part, NodeId) {
      pool_.parallel_for(part.num_edges(), kEdgesPerRead, [&](Count begin, Count end) {
        if (wide) return;
        std::vector<EdgeId> ids(static_cast<std::size_t>(end - begin));
        part.read_edge_ids(begin, end - begin, ids.data());
        if (std::ranges::any_of(ids, [](EdgeId id) { return id > kMostNarrow; })) wide = true;
      });
    });
    return wide;
  }

  /// Reads the lists of rows [begin, end) of a part, some at a time.
  void read_run(const PartReader& part, NodeId first, Count begin, Count end) {
    std::vector<Count> indptr(static_cast<std::size_t>(end - begin) + 1);
    part.read_indptr(begin, std::ssize(indptr), indptr.data());
    if (!std::ranges::is_sorted(indptr)) refuse_id(first + begin);
    for (std::size_t row = 0; row + 1 < indptr.size();) {
      std::size_t last = row + 1;
      while (last + 1 < indptr.size() && indptr[last + 1] - indptr[row] <= kEdgesPerRead) ++last;
      read_lists_of(part, first + begin + static_cast<Count>(row),
                    std::span(indptr).subspan(row, last - row + 1));
      row = last;
    }
  }

  /// Puts each list where its original id wants it. The lists of planted parts are ordered by community; they
  /// have nothing that belongs to their entries.
  void read_lists_of(const PartReader& part, NodeId first, std::span<const Count> indptr) {
    const Count edges = indptr.back() - indptr.front();
    std::vector<NodeId> sources(static_cast<std::size_t>(edges));
    part.read_indices(indptr.front(), edges, sources.data());
    std::vector<EdgeId> edge_ids(has_edge_ids_ ? sources.size() : 0);
    if (has_edge_ids_) part.read_edge_ids(indptr.front(), edges, edge_ids.data());
    std::vector<float> weights(manifest_.has_edge_weights ? sources.size() : 0);
    if (manifest_.has_edge_weights) part.read_weights(indptr.front(), edges, weights.data());
    for (NodeId& id : sources) {
      if (id < 0 || id >= manifest_.book.num_nodes()) refuse_id(id);
      id = original_[static_cast<std::size_t>(id)];
    }
    for (std::size_t row = 0; row + 1 < indptr.size(); ++row) {
      const auto from = static_cast<std::size_t>(indptr[row] - indptr.front()),
                 count = static_cast<std::size_t>(indptr[row + 1] - indptr[row]);
      const NodeList list{
          .sources = std::span(sources).subspan(from, count),
          .edge_ids = std::span(edge_ids).subspan(has_edge_ids_ ? from : 0, has_edge_ids_ ? count : 0),
          .weights = std::span(weights).subspan(weights.empty() ? 0 : from, weights.empty() ? 0 : count)};
      if (!has_edge_ids_) std::ranges::sort(list.sources);
      take(original_[static_cast<std::size_t>(first) + row], list);
    }
  }

  void take(NodeId node, const NodeList& list) {
    Count loops = 0, again = 0, loops_again = 0;
    const bool several = manifest_.types.several();
    if (several && !ranges_.problem_of(node, list.sources, list.edge_ids).empty()) refuse_id(node);
    for (std::size_t e = 0; e < list.sources.size(); ++e) {
      const bool loop = list.sources[e] == node,
                 repeated = e > 0 && list.sources[e] == list.sources[e - 1] &&
                            (!several || ranges_.relation_of(list.edge_ids[e]) ==
                                             ranges_.relation_of(list.edge_ids[e - 1]));
      if (!several && e > 0 && list.sources[e] < list.sources[e - 1]) refuse_id(node);
      if (!list.weights.empty() && !is_edge_weight(list.weights[e])) refuse_id(node);
      loops += loop;
      again += repeated;
      loops_again += loop && repeated;
    }
    self_loops_ += loops;
    duplicates_ += again;
    duplicate_loops_ += loops_again;
    CscGraph& graph = graph_.structure;
    const Count to = graph.indptr[static_cast<std::size_t>(node)];
    if (stored_) return stored_->put(to, list);
    std::ranges::copy(list.sources, graph.indices.begin() + to);
    if (has_edge_ids_) std::ranges::copy(list.edge_ids, graph.edge_ids.begin() + to);
    if (!list.weights.empty()) std::ranges::copy(list.weights, graph.weights.begin() + to);
  }

  void read_rows() {
    const Count nodes = manifest_.book.num_nodes(), words = manifest_.label_words();
    std::optional<FeatureTarget> features;
    if (manifest_.feature_cols > 0) features.emplace(nodes, manifest_, assembly_.scratch);
    if (manifest_.has_labels) graph_.labels.resize(static_cast<std::size_t>(nodes * words));
    ProgressBar progress("read rows", nodes, "nodes");
    for_each_part([&](const PartReader& part, NodeId first) {
      pool_.parallel_for(part.num_inner(), kMostBlockRows, [&](Count begin, Count end) {
        read_labels(part, first, begin, end);
        if (features) read_features(part, first, begin, end, *features);
        progress.advance(end - begin);
      });
    });
    if (features) graph_.features = std::move(*features).finish();
  }

  NodeId original_of(NodeId global) const { return original_[static_cast<std::size_t>(global)]; }

  void read_labels(const PartReader& part, NodeId first, Count begin, Count end) {
    if (!manifest_.has_labels) return;
    const Count words = manifest_.label_words();
    std::vector<std::int32_t> labels(static_cast<std::size_t>((end - begin) * words));
    part.read_labels(begin, end - begin, labels.data());
    for (Count row = begin; row < end; ++row)
      std::copy_n(labels.begin() + (row - begin) * words, words,
                  graph_.labels.begin() + original_of(first + row) * words);
  }

  void read_features(const PartReader& part, NodeId first, Count begin, Count end,
                     const FeatureTarget& target) const {
    constexpr Count kBytesPerRead = Count{4} << 20;
    const Count row_bytes = manifest_.feature_row_bytes();
    std::vector<float> decoded(static_cast<std::size_t>(manifest_.feature_code ? manifest_.feature_cols : 0));
    const Count block = part.feature_block_rows(),
                most = std::max(block, kBytesPerRead / row_bytes / block * block);
    std::vector<std::byte> rows(static_cast<std::size_t>(std::min(most, end - begin) * row_bytes));
    for (Count at = begin; at < end; at += most) {
      const Count count = std::min(most, end - at);
      part.read_features(at, count, rows.data());
      for (Count i = 0; i < count; ++i) {
        const std::byte* row = rows.data() + i * row_bytes;
        if (manifest_.feature_code) {
          manifest_.feature_code.decode(row, decoded.data());
          row = reinterpret_cast<const std::byte*>(decoded.data());
        }
        target.put(original_of(first + at + i), row);
      }
    }
  }

  void read_split(Split split) {
    std::vector<NodeId>& nodes = split == Split::train   ? graph_.splits.train
                                 : split == Split::valid ? graph_.splits.valid
                                                         : graph_.splits.test;
    for_each_part([&](const PartReader& part, NodeId first) {
      for (const Count row : part.read_split(split).rows) {
        if (row < 0 || row >= part.num_inner()) refuse_id(row);
        nodes.push_back(original_[static_cast<std::size_t>(first + row)]);
      }
    });
    std::ranges::sort(nodes);
  }

  static constexpr Count kMostNarrow = std::numeric_limits<std::int32_t>::max();

  const PartsOrigin& origin_;
  Assembly& assembly_;
  ThreadPool& pool_;
  Manifest manifest_;
  RelationRanges ranges_;
  bool has_edge_ids_;
  std::vector<NodeId> original_;
  Graph graph_;
  std::optional<StoredTarget> stored_;
  std::atomic<Count> self_loops_{0}, duplicates_{0}, duplicate_loops_{0};
};

}  // namespace

Graph read_whole_graph(const PartsOrigin& origin, Assembly& assembly) {
  return WholeGraph(origin, assembly).read();
}

}  // namespace strata::graph
