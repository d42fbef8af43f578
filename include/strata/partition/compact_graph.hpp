// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// Ids with 32 bits if all of them fit, else with 64. An owner.
class IdArray {
 public:
  IdArray() = default;
  explicit IdArray(std::vector<std::int32_t> ids) : ids_{std::move(ids)} {}
  explicit IdArray(std::vector<std::int64_t> ids) : ids_{std::move(ids)} {}
  /// Ids that lie elsewhere; `memory` keeps them valid.
  IdArray(IdSpan ids, std::shared_ptr<const void> memory) : ids_{Stored{ids, std::move(memory)}} {}

  IdSpan span() const {
    return std::visit(
        []<typename Ids>(const Ids& v) {
          if constexpr (std::is_same_v<Ids, Stored>)
            return v.ids;
          else
            return IdSpan{v.data(), static_cast<Count>(v.size()), sizeof(v[0]) == sizeof(std::int64_t)};
        },
        ids_);
  }
  Count size() const { return span().size; }

 private:
  struct Stored {
    IdSpan ids;
    std::shared_ptr<const void> memory;
  };
  std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>, Stored> ids_;
};

/// A checked CscGraph in half the memory, or with its lists in scratch files. Ids are original ids.
struct CompactGraph {
  Count num_nodes = 0;
  std::vector<Count> indptr;                ///< [num_nodes + 1]
  IdArray indices;                          ///< [num_edges], each list ascending
  IdArray edge_ids;                         ///< [num_edges], or empty: entry e of `indices` is edge e
  std::vector<float> own_weights = {};      ///< [num_edges], or empty: none
  ScratchArray<float> stored_weights = {};  ///< instead, with `scratch`
  ScratchStore* scratch = nullptr;          ///< of the lists; null: they are in memory
  graph::NodeWeights node_weights = {};

  Count num_edges() const { return indptr.back(); }
  std::span<const float> weights() const {
    return scratch != nullptr ? std::span<const float>(stored_weights.span()) : own_weights;
  }
  void release_pages() const {
    if (scratch != nullptr) scratch->trim();
  }
  Count in_degree(NodeId v) const {
    return indptr[static_cast<std::size_t>(v) + 1] - indptr[static_cast<std::size_t>(v)];
  }
};

/// Consumes `graph`, freeing its arrays as they are converted. Throws InputError for lengths that do not
/// match, ids out of range, lists that are not ascending, and weights that are negative or not finite.
CompactGraph compact(graph::CscGraph graph, ThreadPool& pool);

/// The same for lists in scratch files, which were checked when they were made.
CompactGraph compact(graph::StoredLists lists, ScratchStore& scratch);

/// The heat of each node: how often it occurs in `indices`.
std::vector<Count> occurrences(const CompactGraph& graph, ThreadPool& pool);

/// Whether, for all pairs, u is among the in-neighbors of v as often as v among those of u. Compares two sums
/// of hashes.
bool is_symmetric(const CompactGraph& graph, ThreadPool& pool);

}  // namespace strata::partition
