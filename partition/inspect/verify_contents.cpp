// SPDX-License-Identifier: Apache-2.0
#include "inspect/verify_contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/random.hpp"

namespace strata::partition {
namespace {

using graph::PartReader;
using graph::Split;

constexpr Count kRows = graph::kMostBlockRows;  // read at once
constexpr Count kEdges = Count{1} << 16;        // read at once
constexpr Count kPieceBytes = Count{1} << 20;   // of labels or features per read
constexpr Count kThreadBytes = Count{4} << 20;  // of all such pieces of a thread

/// The state of reading the structure of one part, and what was found so far.
struct StructureWalk {
  const PartReader& reader;
  int part;
  std::vector<bool> seen;  ///< nodes of other parts, by global id
  graph::RecentBlocks recent = {};
  Count edges = 0, row = 0;  ///< edges before the piece in `indices`; row of the current entry
  std::vector<NodeId> indices = {};
  std::vector<EdgeId> edge_ids = {};
  std::vector<float> weights = {};
  struct Entry {
    int relation;
    NodeId original;
    EdgeId edge;
    auto operator<=>(const Entry&) const = default;
  } before = {};
  Count halo = 0, cut = 0;
  std::uint64_t asymmetry = 0;
  bool bad_id = false, bad_weight = false, unordered = false, bad_end = false;  ///< reported
};

/// Reads parts in pieces. Only the original id and the heat of each node of the whole graph stay in memory.
class ContentsCheck {
 public:
  ContentsCheck(const std::filesystem::path& directory, const graph::PartitionRecord& record,
                ThreadPool& pool)
      : directory_{directory},
        record_{record},
        manifest_{record.manifest},
        pool_{pool},
        progress_{"check contents",
                  manifest_.num_edges + (manifest_.feature_cols > 0 ? manifest_.book.num_nodes() : 0),
                  "entries"} {}

  std::vector<Problem> run() {
    original_ids_.resize(at(manifest_.book.num_nodes()));
    heat_.resize(original_ids_.size());
    each_part([&](const PartReader& reader, int part) {
      reader.read_original_ids(0, reader.num_inner(),
                               original_ids_.data() + manifest_.book.offsets()[at(part)]);
    });
    if (problems_.empty()) check_permutation();
    if (!problems_.empty()) return std::move(problems_);  // because the other checks need valid original ids
    each_part([&](const PartReader& reader, int part) {
      check_structure(reader, part);
      check_labels(reader, part);
      check_clusters(reader);
      check_features(reader, part);
    });
    if (problems_.empty()) check_whole_structure();
    for (const auto split : {Split::train, Split::valid, Split::test}) check_split(split);
    check_held_edges();
    check_constraints();
    return std::move(problems_);
  }

 private:
  void report(int part, const std::string& dataset, std::string message) {
    const std::scoped_lock lock{mutex_};
    problems_.push_back(
        {part < 0 ? graph::kManifestFile : record_.parts[at(part)].file, dataset, std::move(message)});
  }

  template <typename Check>
  void each_part(Check check) {
    pool_.parallel_for(manifest_.book.num_parts(), 1, [&](Count begin, Count end) {
      for (Count p = begin; p < end; ++p) {
        const int part = static_cast<int>(p);
        try {
          check(PartReader::open(directory_, manifest_, part), part);
        } catch (const Error& error) {
          report(part, "", error.what());
        }
      }
    });
  }

  void check_permutation() {
    std::vector<bool> seen(original_ids_.size());
    for (std::size_t id = 0; id < original_ids_.size(); ++id) {
      const NodeId original = original_ids_[id];
      const bool fits = original >= 0 && at(original) < seen.size() && !seen[at(original)];
      if (!fits) {
        const int part = manifest_.book.part_of(static_cast<NodeId>(id));
        return report(part, nodes_ + "original_id",
                      fmt::format("{} of row {} is out of range or occurs twice", original,
                                  manifest_.book.local_of(static_cast<NodeId>(id))));
      }
      seen[at(original)] = true;
    }
  }

  void check_structure(const PartReader& reader, int part) {
    StructureWalk walk{.reader = reader, .part = part, .seen = std::vector<bool>(original_ids_.size())};
    const Count inner = reader.num_inner();
    for (Count first = 0; first < std::max<Count>(inner, 1); first += kRows)
      if (!check_rows(walk, first, std::min(kRows, inner - first))) return;
    asymmetry_ += walk.asymmetry;
    check_border(walk);
  }

  /// Checks the lists of some rows. Returns false if nothing after them can be checked.
  bool check_rows(StructureWalk& walk, Count first, Count rows) {
    std::vector<Count> indptr(at(rows + 1));
    walk.reader.read_indptr(first, rows + 1, indptr.data(), &walk.recent);
    const bool ends = first + rows == walk.reader.num_inner();
    if (indptr.front() != walk.edges || indptr.back() > walk.reader.num_edges() ||
        (ends && indptr.back() != walk.reader.num_edges()) || !std::ranges::is_sorted(indptr)) {
      report(walk.part, edges_ + "indptr", "does not rise from 0 to the number of edges");
      return false;
    }
    walk.row = first;
    for (; walk.edges < indptr.back(); walk.edges += std::ssize(walk.indices))
      if (!check_edges(walk, first, indptr)) return false;
    return true;
  }

  bool check_edges(StructureWalk& walk, Count first_row, const std::vector<Count>& indptr) {
    const Count count = std::min(kEdges, indptr.back() - walk.edges);
    walk.indices.resize(at(count));
    walk.edge_ids.resize(at(count));
    walk.reader.read_indices(walk.edges, count, walk.indices.data(), &walk.recent);
    walk.reader.read_edge_ids(walk.edges, count, walk.edge_ids.data(), &walk.recent);
    const NodeId num_nodes = manifest_.book.num_nodes();
    const auto bad = std::ranges::find_if(walk.indices, [&](NodeId u) { return u < 0 || u >= num_nodes; });
    if (bad != walk.indices.end()) {
      report(walk.part, edges_ + "indices",
             fmt::format("{} at {} is out of range [0, {})", *bad, walk.edges + (bad - walk.indices.begin()),
                         num_nodes));
      return false;
    }
    if (std::ranges::any_of(walk.edge_ids, [this](EdgeId e) { return ranges_.relation_of(e) < 0; }))
      report_once(walk, walk.bad_id, edges_ + "edge_id",
                  ranges_.size() > 1 ? "holds an id of no relation" : "holds a negative id");
    check_weights(walk);
    progress_.advance(count);
    for (std::size_t e = 0; e < walk.indices.size(); ++e) {
      while (walk.edges + static_cast<Count>(e) >= indptr[at(walk.row - first_row + 1)]) ++walk.row;
      meet(walk, e, walk.edges + static_cast<Count>(e) == indptr[at(walk.row - first_row)]);
    }
    return true;
  }

  void report_once(const StructureWalk& walk, bool& reported, const std::string& dataset,
                   std::string message) {
    if (!std::exchange(reported, true)) report(walk.part, dataset, std::move(message));
  }

  void check_weights(StructureWalk& walk) {
    if (!manifest_.has_edge_weights) return;
    walk.weights.resize(walk.indices.size());
    walk.reader.read_weights(walk.edges, std::ssize(walk.weights), walk.weights.data(), &walk.recent);
    const auto bad = std::ranges::find_if_not(walk.weights, graph::is_edge_weight);
    if (bad == walk.weights.end()) return;
    report_once(
        walk, walk.bad_weight, edges_ + "weight",
        fmt::format("{} at {} is negative or not finite", *bad, walk.edges + (bad - walk.weights.begin())));
  }

  /// Takes in one entry of a list: checks its place in the order, and counts its node's heat, the sums that
  /// show whether the graph is symmetric, and the part's border.
  void meet(StructureWalk& walk, std::size_t e, bool begins_list) {
    const NodeId first = manifest_.book.offsets()[at(walk.part)],
                 last = manifest_.book.offsets()[at(walk.part) + 1];
    const auto u = static_cast<std::uint64_t>(walk.indices[e]),
               v = static_cast<std::uint64_t>(first + walk.row);
    walk.asymmetry += mix64(mix64(v) + u) - mix64(mix64(u) + v);
    std::atomic_ref{heat_[u]}.fetch_add(1, std::memory_order_relaxed);
    const StructureWalk::Entry here{ranges_.relation_of(walk.edge_ids[e]), original_ids_[u],
                                    walk.edge_ids[e]};
    if (!begins_list && walk.before > here) {
      report_once(walk, walk.unordered, edges_ + "indices",
                  fmt::format("the list of row {} is not in the order of {}original ids", walk.row,
                              ranges_.size() > 1 ? "relations and " : ""));
    }
    if (here.relation >= 0 && !ranges_.fits(here.relation, here.original, original_ids_[v]))
      report_once(
          walk, walk.bad_end, edges_ + "indices",
          fmt::format("edge {} to row {} joins nodes of other types than its relation", here.edge, walk.row));
    walk.before = here;
    if (walk.indices[e] >= first && walk.indices[e] < last) return;
    ++walk.cut;
    if (!walk.seen[u]) ++walk.halo;
    walk.seen[u] = true;
  }

  void check_border(const StructureWalk& walk) {
    const graph::PartRecord& stored = record_.parts[at(walk.part)];
    if (walk.halo == stored.halo_nodes && walk.cut == stored.cut_edges) return;
    report(walk.part, "",
           fmt::format("has {} halo nodes and {} cut edges, the manifest says {} and {}", walk.halo, walk.cut,
                       stored.halo_nodes, stored.cut_edges));
  }

  void check_whole_structure() {
    if (manifest_.undirected && asymmetry_ != 0)
      report(-1, "", "is marked undirected, but some edge lacks its reverse");
    const auto offsets = manifest_.book.offsets();
    for (int part = 0; part < manifest_.book.num_parts(); ++part) {
      for (NodeId id = offsets[at(part)] + 1; id < offsets[at(part) + 1]; ++id) {
        const Count before = heat_[at(id - 1)], here = heat_[at(id)];
        if (before > here || (before == here && original_ids_[at(id - 1)] < original_ids_[at(id)])) continue;
        report(part, nodes_ + "original_id",
               fmt::format("row {} is hotter than the row before it", id - offsets[at(part)]));
        break;
      }
    }
  }

  void check_labels(const PartReader& reader, int part) {
    if (!manifest_.has_labels) return;
    const Count words = manifest_.label_words(), rows_at_once = std::max<Count>(1, kPieceBytes / (4 * words));
    std::vector<std::int32_t> labels(at(std::min(rows_at_once, reader.num_inner()) * words));
    for (Count first = 0; first < reader.num_inner(); first += rows_at_once) {
      const Count rows = std::min(rows_at_once, reader.num_inner() - first);
      reader.read_labels(first, rows, labels.data());
      for (Count row = 0; row < rows; ++row)
        if (!check_label(part, first + row, labels.data() + row * words)) return;
    }
  }

  bool check_label(int part, Count row, const std::int32_t* label) {
    const LabelShape shape = manifest_.label_shape();
    if (shape.allows(label)) return true;
    if (shape.targets > 0)
      report(part, nodes_ + "target", fmt::format("row {} has a target that is not finite", row));
    else if (shape.sets)
      report(part, nodes_ + "label", fmt::format("row {} is no set of {} classes", row, shape.classes));
    else
      report(part, nodes_ + "label",
             fmt::format("{} of row {} is out of range [-1, {})", *label, row, shape.classes));
    return false;
  }

  /// Checks clusters by reading them; the reader refuses numbers out of range.
  void check_clusters(const PartReader& reader) const {
    if (manifest_.num_clusters == 0) return;
    std::vector<std::int32_t> clusters(at(std::min(kRows, reader.num_inner())));
    for (Count first = 0; first < reader.num_inner(); first += kRows)
      reader.read_clusters(first, std::min(kRows, reader.num_inner() - first), clusters.data());
  }

  bool finite(const std::byte* row, Count col) const {
    std::uint32_t bits = 0;
    const std::size_t size = size_of(manifest_.feature_dtype);
    std::memcpy(&bits, row + at(col) * size, size);
    const std::uint32_t exponent = manifest_.feature_dtype == DType::f32    ? 0x7f800000u
                                   : manifest_.feature_dtype == DType::bf16 ? 0x7f80u
                                                                            : 0x7c00u;
    return (bits & exponent) != exponent;
  }

  void check_features(const PartReader& reader, int part) {
    if (manifest_.feature_cols == 0) return;
    const std::size_t row_bytes = at(manifest_.feature_row_bytes());
    const Count rows_at_once = std::max<Count>(1, kPieceBytes / static_cast<Count>(row_bytes));
    std::vector<std::byte> rows(at(rows_at_once) * row_bytes);
    for (Count first = 0; first < reader.num_inner(); first += rows_at_once) {
      const Count count = std::min(rows_at_once, reader.num_inner() - first);
      reader.read_features(first, count, rows.data());
      progress_.advance(count);
      if (const RowCode& code = manifest_.feature_code) {
        for (Count r = 0; r < count; ++r)
          if (!code.is_finite(rows.data() + at(r) * row_bytes))
            return report(part, nodes_ + "feat", fmt::format("row {} is not finite", first + r));
        continue;
      }
      for (Count i = 0; i < count * manifest_.feature_cols; ++i) {
        if (finite(rows.data(), i)) continue;
        return report(part, nodes_ + "feat",
                      fmt::format("row {}, column {} is not finite", first + i / manifest_.feature_cols,
                                  i % manifest_.feature_cols));
      }
    }
  }

  /// Checks that the ranks of all parts are a permutation that ascends with the original ids, and that no
  /// node is in two splits.
  void check_split(Split split) {
    const bool train = split == Split::train, valid = split == Split::valid;
    const std::string name = nodes_ + "split/" + (train ? "train" : valid ? "valid" : "test");
    const Count size = train ? manifest_.num_train : valid ? manifest_.num_valid : manifest_.num_test;
    std::vector<NodeId> by_rank(at(size), -1);
    in_a_split_.resize(original_ids_.size());
    for (int part = 0; part < manifest_.book.num_parts(); ++part) {
      try {
        if (!place(PartReader::open(directory_, manifest_, part), split, part, by_rank)) {
          return report(part, name, "holds a row or rank that is out of range, or a node of another split");
        }
      } catch (const Error& error) {
        return report(part, name, error.what());
      }
    }
    const auto fall = std::adjacent_find(by_rank.begin(), by_rank.end(), std::greater_equal<>{});
    if ((!by_rank.empty() && by_rank.front() < 0) || fall != by_rank.end()) {
      report(-1, name, "the ranks of all parts do not follow the order of the original ids");
    }
  }

  bool place(const PartReader& reader, Split split, int part, std::vector<NodeId>& by_rank) {
    std::vector<Count> rows(at(std::min(kRows, reader.split_size(split)))), ranks(rows.size());
    Count last_rank = -1;
    for (Count first = 0; first < reader.split_size(split); first += kRows) {
      const Count count = std::min(kRows, reader.split_size(split) - first);
      reader.read_split_rows(split, first, count, rows.data());
      reader.read_split_ranks(split, first, count, ranks.data());
      for (std::size_t i = 0; i < at(count); ++i) {
        const Count row = rows[i], rank = ranks[i];
        const bool fits = row >= 0 && row < reader.num_inner() && rank > last_rank &&
                          at(rank) < by_rank.size() && by_rank[at(rank)] < 0;
        if (!fits) return false;
        const NodeId original = original_ids_[at(manifest_.book.global_of(part, row))];
        if (in_a_split_[at(original)]) return false;
        in_a_split_[at(original)] = true;
        by_rank[at(rank)] = original;
        last_rank = rank;
      }
    }
    return true;
  }

  /// Checks held-out edges by reading them, and that they lie in the parts of their destinations.
  void check_held_edges() {
    if (!manifest_.holds_edges_out()) return;
    each_part([&](const PartReader& reader, int part) {
      std::vector<NodeId> own(original_ids_.begin() + manifest_.book.offsets()[at(part)],
                              original_ids_.begin() + manifest_.book.offsets()[at(part) + 1]);
      std::ranges::sort(own);
      for (const auto split : {Split::valid, Split::test})
        for (const NodeId node : reader.read_held_edges(split).destinations)
          if (!std::ranges::binary_search(own, node))
            return report(part, edges_ + "split",
                          fmt::format("has an edge to node {} of another part", node));
    });
    try {
      graph::read_edge_splits(directory_, manifest_);
    } catch (const Error& error) {
      report(-1, edges_ + "split", error.what());
    }
  }

  void check_constraints() {
    const auto offsets = manifest_.book.offsets();
    for (const graph::ConstraintRecord& c : record_.constraints) {
      bool fits = static_cast<int>(c.weights.size()) == manifest_.book.num_parts();
      for (std::size_t p = 0; fits && p < c.weights.size(); ++p) {
        if (c.name == "nodes") fits = c.weights[p] == offsets[p + 1] - offsets[p];
        if (c.name == "edges") fits = c.weights[p] == record_.parts[p].num_edges;
      }
      if (!fits) report(-1, "", "the weights of constraint \"" + c.name + "\" are not those of the parts");
    }
  }

  const std::filesystem::path& directory_;
  const graph::PartitionRecord& record_;
  const graph::Manifest& manifest_;
  const graph::RelationRanges ranges_{manifest_.types};
  const std::string nodes_ = manifest_.nodes_path(), edges_ = manifest_.edges_path();  ///< of datasets
  ThreadPool& pool_;
  std::mutex mutex_;
  std::vector<Problem> problems_;
  std::vector<NodeId> original_ids_;  // by global id
  std::vector<Count> heat_;           // by global id
  std::vector<bool> in_a_split_;      // by original id
  std::atomic<std::uint64_t> asymmetry_{0};
  ProgressBar progress_;
};

}  // namespace

std::int64_t verify_bytes(const graph::PartitionRecord& record, int num_threads) {
  const Count nodes = record.manifest.book.num_nodes();
  Count largest = 0;
  for (const graph::PartRecord& part : record.parts) largest = std::max(largest, part.bytes);
  const Count threads = std::min<Count>(num_threads, std::ssize(record.parts));
  return nodes * 25 + threads * (nodes / 8 + kThreadBytes + largest / 4096);
}

std::vector<Problem> verify_contents(const std::filesystem::path& directory,
                                     const graph::PartitionRecord& record, ThreadPool& pool) {
  return ContentsCheck{directory, record, pool}.run();
}

}  // namespace strata::partition
