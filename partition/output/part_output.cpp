// SPDX-License-Identifier: Apache-2.0
#include "output/part_output.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "output/feature_rows.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/partition/build.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/random.hpp"

namespace strata::partition {
namespace {

using graph::PartData;
using graph::PartReader;
using graph::PartWriter;
using graph::Split;

constexpr Count kPieceEdges = Count{1} << 17;
constexpr Count kPieceFeatureBytes = Count{4} << 20;
constexpr Count kPieceRows = Count{1} << 16;

/// Consecutive rows of one part, in global ids.
struct Piece {
  int part;
  NodeId first, last;
};

/// The rows of each part that are in one split.
std::vector<PartData::SplitRows> split_by_part(const std::vector<NodeId>& nodes, const PartSource& source) {
  std::vector<PartData::SplitRows> result(at(source.manifest.book.num_parts()));
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const NodeId global = source.relabeling.global_ids[at(nodes[rank])];
    PartData::SplitRows& rows = result[at(source.manifest.book.part_of(global))];
    rows.rows.push_back(source.manifest.book.local_of(global));
    rows.ranks.push_back(static_cast<Count>(rank));
  }
  return result;
}

/// The edges to the nodes of each part.
std::vector<graph::EdgeSplits> held_by_part(const PartSource& source) {
  std::vector<graph::EdgeSplits> result(at(source.manifest.book.num_parts()));
  const auto deal = [&](const graph::HeldEdges& edges, graph::HeldEdges graph::EdgeSplits::*split) {
    for (std::size_t i = 0; i < edges.edge_ids.size(); ++i) {
      const NodeId global = source.relabeling.global_ids[at(edges.destinations[i])];
      graph::HeldEdges& of_part = result[at(source.manifest.book.part_of(global))].*split;
      of_part.sources.push_back(edges.sources[i]);
      of_part.destinations.push_back(edges.destinations[i]);
      of_part.edge_ids.push_back(edges.edge_ids[i]);
    }
  };
  deal(source.edge_splits.valid, &graph::EdgeSplits::valid);
  deal(source.edge_splits.test, &graph::EdgeSplits::test);
  return result;
}

class PartsOutput {
 public:
  PartsOutput(const PartSource& source, ThreadPool& pool, const StopFlag& stop)
      : source_{source}, pool_{pool}, stop_{stop}, edge_offsets_(source.relabeling.original_ids.size() + 1) {
    for (std::size_t id = 0; id + 1 < edge_offsets_.size(); ++id) {
      edge_offsets_[id + 1] =
          edge_offsets_[id] + source.structure.in_degree(source.relabeling.original_ids[id]);
    }
  }

  WrittenParts write(const std::filesystem::path& directory) {
    limit_threads();
    create_files(directory);
    write_splits();
    write_rows();
    const auto parts = at(num_parts());
    if (source_.count_between && num_parts() <= BuildReport::kMostPartsBetween)
      edges_between_.resize(parts * parts);
    std::vector<graph::PartRecord> records = finish();
    return {.edges_between = std::move(edges_between_),
            .records = std::move(records),
            .feature_digest = feature_digest_};
  }

 private:
  int num_parts() const { return source_.manifest.book.num_parts(); }
  NodeId begin_of(int part) const { return source_.relabeling.offsets[at(part)]; }
  NodeId end_of(int part) const { return source_.relabeling.offsets[at(part) + 1]; }
  Count edges_before(NodeId global) const { return edge_offsets_[at(global)]; }

  /// Limits threads: each holds a piece, or one bit per node, and half of the capacity of a graph on disk is
  /// theirs.
  void limit_threads() {
    const ScratchStore* const scratch = source_.structure.scratch;
    if (scratch == nullptr) return;
    constexpr Count kPieceBytes = kPieceFeatureBytes + kPieceEdges * 20;  // two ids and a weight
    const Count each = kPieceBytes + std::ssize(edge_offsets_) / 8;
    pool_.limit(static_cast<int>(std::clamp<Count>(scratch->capacity() / 2 / each, 1, pool_.num_threads())));
  }

  void create_files(const std::filesystem::path& directory) {
    train_ = split_by_part(source_.splits.train, source_);
    valid_ = split_by_part(source_.splits.valid, source_);
    test_ = split_by_part(source_.splits.test, source_);
    held_ = held_by_part(source_);
    for (int p = 0; p < num_parts(); ++p) {
      stop_.check();
      writers_.push_back(PartWriter::create(directory, source_.manifest,
                                            {.part = p,
                                             .num_edges = edges_before(end_of(p)) - edges_before(begin_of(p)),
                                             .num_train = static_cast<Count>(train_[at(p)].rows.size()),
                                             .num_valid = static_cast<Count>(valid_[at(p)].rows.size()),
                                             .num_test = static_cast<Count>(test_[at(p)].rows.size()),
                                             .num_valid_edges = held_[at(p)].valid.size(),
                                             .num_test_edges = held_[at(p)].test.size()}));
    }
  }

  void write_splits() {
    for (int p = 0; p < num_parts(); ++p) {
      writers_[at(p)].write_split(Split::train, train_[at(p)]);
      writers_[at(p)].write_split(Split::valid, valid_[at(p)]);
      writers_[at(p)].write_split(Split::test, test_[at(p)]);
      writers_[at(p)].write_held_edges(held_[at(p)]);
    }
  }

  /// Runs of rows of bounded bytes; a single row may exceed the bound.
  std::vector<Piece> make_pieces() const {
    const Count row_bytes = std::max<Count>(1, source_.manifest.feature_cols * 4);
    const Count most_rows = std::clamp<Count>(kPieceFeatureBytes / row_bytes, 1, kPieceRows);
    std::vector<Piece> pieces;
    for (int p = 0; p < num_parts(); ++p) {
      NodeId first = begin_of(p);
      do {  // an empty part has one empty piece: its indptr still has an entry
        const auto by_edges =
            std::upper_bound(edge_offsets_.begin() + first, edge_offsets_.begin() + end_of(p),
                             edges_before(first) + kPieceEdges);
        const NodeId last = std::min(
            {std::max<NodeId>(by_edges - edge_offsets_.begin(), first + 1), first + most_rows, end_of(p)});
        pieces.push_back({p, first, last});
        first = last;
      } while (first < end_of(p));
    }
    return pieces;
  }

  void write_rows() {
    const std::vector<Piece> pieces = make_pieces();
    std::vector<std::atomic<Count>> left(at(num_parts()));
    for (const Piece& piece : pieces) ++left[at(piece.part)];
    ProgressBar bar{"write parts", static_cast<std::int64_t>(source_.relabeling.original_ids.size()),
                    "nodes"};
    pool_.parallel_for(static_cast<Count>(pieces.size()), 1, [&](Count begin, Count end) {
      for (Count i = begin; i < end; ++i) {
        stop_.check();
        const Piece& piece = pieces[at(i)];
        write_structure(piece);
        write_nodes(piece);
        if (--left[at(piece.part)] == 0) writers_[at(piece.part)].start_flush();
        bar.advance(piece.last - piece.first);
      }
    });
  }

  void write_structure(const Piece& piece) const {
    const Count before_part = edges_before(begin_of(piece.part)), first_edge = edges_before(piece.first);
    const bool ends_part = piece.last == end_of(piece.part);
    std::vector<Count> indptr;
    for (NodeId id = piece.first; id < piece.last + (ends_part ? 1 : 0); ++id)
      indptr.push_back(edges_before(id) - before_part);
    std::vector<NodeId> indices(at(edges_before(piece.last) - first_edge));
    std::vector<EdgeId> edge_ids(indices.size());
    const CompactGraph& graph = source_.structure;
    graph.indices.span().visit([&](const auto* sources) {
      copy_lists(piece, sources, indices.data(),
                 [this](NodeId u) { return source_.relabeling.global_ids[at(u)]; });
    });
    if (const IdSpan ids = graph.edge_ids.span(); ids.size > 0)
      ids.visit([&](const auto* edges) {
        copy_lists(piece, edges, edge_ids.data(), [](EdgeId edge) { return edge; });
      });
    else
      number_lists(piece, edge_ids.data());
    std::vector<float> weights(source_.manifest.has_edge_weights ? indices.size() : 0);
    if (source_.manifest.has_edge_weights)
      copy_lists(piece, graph.weights().data(), weights.data(), [](float weight) { return weight; });
    const PartWriter& writer = writers_[at(piece.part)];
    writer.write_indptr(piece.first - begin_of(piece.part), indptr);
    writer.write_indices(first_edge - before_part, indices);
    writer.write_edge_ids(first_edge - before_part, edge_ids);
    if (source_.manifest.has_edge_weights) writer.write_weights(first_edge - before_part, weights);
  }

  /// Copies the data of a piece's lists one after the other.
  template <typename From, typename To, typename Convert>
  void copy_lists(const Piece& piece, const From* all, To* to, Convert convert) const {
    const CompactGraph& graph = source_.structure;
    FarReader<From> far{graph.scratch, all};
    for (NodeId id = piece.first; id < piece.last; ++id) {
      const NodeId v = source_.relabeling.original_ids[at(id)];
      const Count degree = graph.in_degree(v);
      const From* const list = far.read(graph.indptr[at(v)], degree);
      to = std::transform(list, list + degree, to, convert);
    }
  }

  /// Numbers the edges of lists in which entry e is edge e.
  void number_lists(const Piece& piece, EdgeId* to) const {
    for (NodeId id = piece.first; id < piece.last; ++id) {
      const NodeId v = source_.relabeling.original_ids[at(id)];
      for (Count e = source_.structure.indptr[at(v)]; e < source_.structure.indptr[at(v) + 1]; ++e) *to++ = e;
    }
  }

  void write_nodes(const Piece& piece) {
    const PartWriter& writer = writers_[at(piece.part)];
    const NodeId* originals = source_.relabeling.original_ids.data() + piece.first;
    const Count count = piece.last - piece.first, row = piece.first - begin_of(piece.part);
    writer.write_original_ids(row, {originals, at(count)});
    if (source_.manifest.has_labels) {
      const Count words = source_.manifest.label_words();
      std::vector<std::int32_t> labels(at(count * words));
      for (Count i = 0; i < count; ++i)
        std::copy_n(source_.labels.data() + originals[i] * words, words, labels.data() + i * words);
      writer.write_labels(row, labels);
    }
    if (source_.manifest.num_clusters > 0) {
      std::vector<std::int32_t> clusters(at(count));
      std::transform(originals, originals + count, clusters.begin(),
                     [this](NodeId v) { return source_.clusters[at(v)]; });
      writer.write_clusters(row, clusters);
    }
    if (source_.manifest.feature_cols > 0) {
      const std::vector<std::byte> rows =
          gather_rows(source_.features, originals, count,
                      {.dtype = source_.manifest.feature_dtype, .code = source_.manifest.feature_code},
                      source_.structure.scratch);
      writer.write_features(row, rows);
      feature_digest_ += sum_of_hashes(rows, originals, count);
    }
  }

  /// A sum of hashes, so that rows may come in any order.
  static std::uint64_t sum_of_hashes(const std::vector<std::byte>& rows, const NodeId* originals,
                                     Count count) {
    const std::size_t row_bytes = count > 0 ? rows.size() / at(count) : 0;
    std::uint64_t sum = 0;
    for (Count i = 0; i < count; ++i) {
      const std::uint64_t row = hash_bytes(rows.data() + at(i) * row_bytes, row_bytes);
      sum += mix64(row ^ mix64(static_cast<std::uint64_t>(originals[i])));
    }
    return sum;
  }

  std::vector<graph::PartRecord> finish() {
    std::vector<graph::PartRecord> records(at(num_parts()));
    ProgressBar bar{"flush parts", num_parts(), "parts"};
    pool_.parallel_for(num_parts(), 1, [&](Count begin, Count end) {
      for (Count p = begin; p < end; ++p) {
        stop_.check();
        records[at(p)] = writers_[at(p)].finish();
        count_border(static_cast<int>(p), records[at(p)]);
        bar.advance();
      }
    });
    return records;
  }

  /// Edges from other parts, and their distinct sources.
  void count_border(int part, graph::PartRecord& record) {
    const NodeId first = begin_of(part), last = end_of(part);
    std::vector<bool> seen(source_.relabeling.original_ids.size());
    Count* const row = edges_between_.data() + Count{part} * (edges_between_.empty() ? 0 : num_parts());
    source_.structure.indices.span().visit([&]<typename Id>(const Id* sources) {
      FarReader<Id> far{source_.structure.scratch, sources};
      for (NodeId id = first; id < last; ++id) {
        const NodeId v = source_.relabeling.original_ids[at(id)];
        const Count degree = source_.structure.in_degree(v);
        const Id* const list = far.read(source_.structure.indptr[at(v)], degree);
        for (Count e = 0; e < degree; ++e) {
          const NodeId global = source_.relabeling.global_ids[at(list[e])];
          if (global >= first && global < last) continue;
          ++record.cut_edges;
          if (!edges_between_.empty()) ++row[source_.manifest.book.part_of(global)];
          if (!seen[at(global)]) ++record.halo_nodes;
          seen[at(global)] = true;
        }
      }
    });
    if (!edges_between_.empty()) row[part] = record.num_edges - record.cut_edges;
  }

  const PartSource& source_;
  ThreadPool& pool_;
  const StopFlag& stop_;
  std::vector<Count> edge_offsets_;  // by global id: edges of all nodes before it
  std::vector<PartData::SplitRows> train_, valid_, test_;
  std::vector<graph::EdgeSplits> held_;  // by part
  std::vector<PartWriter> writers_;
  std::atomic<std::uint64_t> feature_digest_{0};
  std::vector<Count> edges_between_;
};

}  // namespace

WrittenParts write_parts(const std::filesystem::path& directory, const PartSource& source, ThreadPool& pool,
                         const StopFlag& stop) {
  return PartsOutput{source, pool, stop}.write(directory);
}

}  // namespace strata::partition
