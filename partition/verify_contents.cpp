#include "verify_contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>

#include "strata/util/error.hpp"
#include "strata/util/random.hpp"

namespace strata::partition {
namespace {

using graph::PartData;
using graph::PartReader;

std::size_t at(Count i) { return static_cast<std::size_t>(i); }

/// What is checked of one part is read once; a part's structure is whole in memory while it is checked.
class ContentsCheck {
 public:
  ContentsCheck(const std::filesystem::path& directory, const graph::PartitionRecord& record,
                ThreadPool& pool)
      : directory_{directory}, record_{record}, manifest_{record.manifest}, pool_{pool} {}

  std::vector<Problem> run() {
    original_ids_.resize(at(manifest_.book.num_nodes()));
    heat_.resize(original_ids_.size());
    each_part([&](const PartReader& reader, int part) {
      reader.read_original_ids(0, reader.num_inner(),
                               original_ids_.data() + manifest_.book.offsets()[at(part)]);
    });
    if (problems_.empty()) check_permutation();
    if (!problems_.empty()) return std::move(problems_);  // the rest is told in terms of original ids
    each_part([&](const PartReader& reader, int part) {
      check_structure(reader, part);
      check_labels(reader, part);
      check_features(reader, part);
    });
    if (problems_.empty()) check_whole_structure();
    for (const auto split : {PartReader::Split::train, PartReader::Split::valid, PartReader::Split::test})
      check_split(split);
    check_constraints();
    return std::move(problems_);
  }

 private:
  void report(int part, const char* dataset, std::string message) {
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
        return report(part, "/nodes/node/original_id",
                      fmt::format("{} of row {} is out of range or occurs twice", original,
                                  manifest_.book.local_of(static_cast<NodeId>(id))));
      }
      seen[at(original)] = true;
    }
  }

  void check_structure(const PartReader& reader, int part) {
    std::vector<Count> indptr(at(reader.num_inner() + 1));
    std::vector<NodeId> indices(at(reader.num_edges()));
    std::vector<EdgeId> edge_ids(indices.size());
    reader.read_indptr(0, reader.num_inner() + 1, indptr.data());
    reader.read_indices(0, reader.num_edges(), indices.data());
    reader.read_edge_ids(0, reader.num_edges(), edge_ids.data());
    constexpr const char* kIndptr = "/edges/node__to__node/indptr";
    constexpr const char* kIndices = "/edges/node__to__node/indices";
    if (indptr.front() != 0 || indptr.back() != reader.num_edges() ||
        !std::is_sorted(indptr.begin(), indptr.end())) {
      return report(part, kIndptr, "does not rise from 0 to the number of edges");
    }
    const NodeId num_nodes = manifest_.book.num_nodes();
    const auto bad =
        std::find_if(indices.begin(), indices.end(), [&](NodeId u) { return u < 0 || u >= num_nodes; });
    if (bad != indices.end()) {
      return report(part, kIndices,
                    fmt::format("{} at {} is out of range [0, {})", *bad, bad - indices.begin(), num_nodes));
    }
    if (std::any_of(edge_ids.begin(), edge_ids.end(), [](EdgeId e) { return e < 0; })) {
      report(part, "/edges/node__to__node/edge_id", "holds a negative id");
    }
    check_weights(reader, part);
    check_lists(part, indptr, indices, edge_ids);
    check_border(part, indices);
  }

  void check_weights(const PartReader& reader, int part) {
    if (!manifest_.has_edge_weights) return;
    std::vector<float> weights(at(reader.num_edges()));
    reader.read_weights(0, reader.num_edges(), weights.data());
    const auto bad = std::ranges::find_if_not(weights, graph::is_edge_weight);
    if (bad == weights.end()) return;
    report(part, "/edges/node__to__node/weight",
           fmt::format("{} at {} is negative or not finite", *bad, bad - weights.begin()));
  }

  /// Order of each list; on the way, every node's heat and the sums that tell whether the graph is symmetric.
  void check_lists(int part, const std::vector<Count>& indptr, const std::vector<NodeId>& indices,
                   const std::vector<EdgeId>& edge_ids) {
    const NodeId first = manifest_.book.offsets()[at(part)];
    std::uint64_t difference = 0;
    std::optional<std::size_t> unordered;
    for (std::size_t row = 0; row + 1 < indptr.size(); ++row) {
      const auto v = static_cast<std::uint64_t>(first) + row;
      for (auto e = at(indptr[row]); e < at(indptr[row + 1]); ++e) {
        const auto u = static_cast<std::uint64_t>(indices[e]);
        difference += mix64(mix64(v) + u) - mix64(mix64(u) + v);
        std::atomic_ref{heat_[u]}.fetch_add(1, std::memory_order_relaxed);
        if (e == at(indptr[row])) continue;
        const NodeId before = original_ids_[at(indices[e - 1])], here = original_ids_[u];
        if (before > here || (before == here && edge_ids[e - 1] > edge_ids[e])) unordered = row;
      }
    }
    asymmetry_ += difference;
    if (unordered) {
      report(part, "/edges/node__to__node/indices",
             fmt::format("the list of row {} is not in the order of original ids", *unordered));
    }
  }

  void check_border(int part, const std::vector<NodeId>& indices) {
    const NodeId first = manifest_.book.offsets()[at(part)], last = manifest_.book.offsets()[at(part) + 1];
    std::vector<bool> seen(original_ids_.size());
    Count halo = 0, cut = 0;
    for (const NodeId u : indices) {
      if (u >= first && u < last) continue;
      ++cut;
      if (!seen[at(u)]) ++halo;
      seen[at(u)] = true;
    }
    const graph::PartRecord& stored = record_.parts[at(part)];
    if (halo != stored.halo_nodes || cut != stored.cut_edges) {
      report(part, "",
             fmt::format("has {} halo nodes and {} cut edges, the manifest says {} and {}", halo, cut,
                         stored.halo_nodes, stored.cut_edges));
    }
  }

  void check_whole_structure() {
    if (manifest_.undirected && asymmetry_ != 0)
      report(-1, "", "says undirected, but some edge lacks its reverse");
    const auto offsets = manifest_.book.offsets();
    for (int part = 0; part < manifest_.book.num_parts(); ++part) {
      for (NodeId id = offsets[at(part)] + 1; id < offsets[at(part) + 1]; ++id) {
        const Count before = heat_[at(id - 1)], here = heat_[at(id)];
        if (before > here || (before == here && original_ids_[at(id - 1)] < original_ids_[at(id)])) continue;
        report(part, "/nodes/node/original_id",
               fmt::format("row {} is hotter than the row before it", id - offsets[at(part)]));
        break;
      }
    }
  }

  void check_labels(const PartReader& reader, int part) {
    if (!manifest_.has_labels) return;
    const Count words = manifest_.label_words();
    std::vector<std::int32_t> labels(at(reader.num_inner() * words));
    reader.read_labels(0, reader.num_inner(), labels.data());
    for (Count row = 0; manifest_.multi_label && row < reader.num_inner(); ++row) {
      if (is_label_set(labels.data() + row * words, manifest_.num_classes)) continue;
      return report(part, "/nodes/node/label",
                    fmt::format("row {} is no set of {} classes", row, manifest_.num_classes));
    }
    if (manifest_.multi_label) return;
    const auto bad = std::find_if(labels.begin(), labels.end(),
                                  [&](std::int32_t x) { return x < -1 || x >= manifest_.num_classes; });
    if (bad == labels.end()) return;
    report(part, "/nodes/node/label",
           fmt::format("{} of row {} is out of range [-1, {})", *bad, bad - labels.begin(),
                       manifest_.num_classes));
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
    const std::size_t row_bytes = at(manifest_.feature_cols) * size_of(manifest_.feature_dtype);
    const Count rows_at_once = std::max<Count>(1, (Count{1} << 20) / static_cast<Count>(row_bytes));
    std::vector<std::byte> rows(at(rows_at_once) * row_bytes);
    for (Count first = 0; first < reader.num_inner(); first += rows_at_once) {
      const Count count = std::min(rows_at_once, reader.num_inner() - first);
      reader.read_features(first, count, rows.data());
      for (Count i = 0; i < count * manifest_.feature_cols; ++i) {
        if (finite(rows.data(), i)) continue;
        return report(part, "/nodes/node/feat",
                      fmt::format("row {}, column {} is not finite", first + i / manifest_.feature_cols,
                                  i % manifest_.feature_cols));
      }
    }
  }

  /// Ranks of all parts are a permutation, and rise with the original ids; no node is in two splits.
  void check_split(PartReader::Split split) {
    const bool train = split == PartReader::Split::train, valid = split == PartReader::Split::valid;
    const char* name = train   ? "/nodes/node/split/train"
                       : valid ? "/nodes/node/split/valid"
                               : "/nodes/node/split/test";
    const Count size = train ? manifest_.num_train : valid ? manifest_.num_valid : manifest_.num_test;
    std::vector<NodeId> by_rank(at(size), -1);
    in_a_split_.resize(original_ids_.size());
    for (int part = 0; part < manifest_.book.num_parts(); ++part) {
      try {
        const PartReader reader = PartReader::open(directory_, manifest_, part);
        const PartData::SplitRows rows = reader.read_split(split);
        if (!place(rows, part, reader.num_inner(), by_rank)) {
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

  bool place(const PartData::SplitRows& rows, int part, Count num_inner, std::vector<NodeId>& by_rank) {
    for (std::size_t i = 0; i < rows.rows.size(); ++i) {
      const Count row = rows.rows[i], rank = rows.ranks[i];
      if (row < 0 || row >= num_inner || rank < 0 || at(rank) >= by_rank.size() || by_rank[at(rank)] >= 0)
        return false;
      const NodeId original = original_ids_[at(manifest_.book.global_of(part, row))];
      if (in_a_split_[at(original)]) return false;
      if (i > 0 && rank <= rows.ranks[i - 1]) return false;
      in_a_split_[at(original)] = true;
      by_rank[at(rank)] = original;
    }
    return true;
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
  ThreadPool& pool_;
  std::mutex mutex_;
  std::vector<Problem> problems_;
  std::vector<NodeId> original_ids_;  // by global id
  std::vector<Count> heat_;           // by global id
  std::vector<bool> in_a_split_;      // by original id
  std::atomic<std::uint64_t> asymmetry_{0};
};

}  // namespace

std::vector<Problem> verify_contents(const std::filesystem::path& directory,
                                     const graph::PartitionRecord& record, ThreadPool& pool) {
  return ContentsCheck{directory, record, pool}.run();
}

}  // namespace strata::partition
