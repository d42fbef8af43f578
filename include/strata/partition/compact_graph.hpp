// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <variant>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// Ids with 32 bits if all of them fit, else with 64. An owner.
class IdArray {
 public:
  IdArray() = default;
  explicit IdArray(std::vector<std::int32_t> ids) : ids_{std::move(ids)} {}
  explicit IdArray(std::vector<std::int64_t> ids) : ids_{std::move(ids)} {}

  IdSpan span() const {
    return std::visit(
        [](const auto& v) {
          return IdSpan{v.data(), static_cast<Count>(v.size()), sizeof(v[0]) == sizeof(std::int64_t)};
        },
        ids_);
  }
  Count size() const { return span().size; }

 private:
  std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>> ids_;
};

/// A checked CscGraph in half the memory. Ids are original ids.
struct CompactGraph {
  Count num_nodes = 0;
  std::vector<Count> indptr;        ///< [num_nodes + 1]
  IdArray indices;                  ///< [num_edges], each list ascending
  IdArray edge_ids;                 ///< [num_edges], or empty: entry e of `indices` is edge e
  std::vector<float> weights = {};  ///< [num_edges], or empty: none

  Count num_edges() const { return indptr.back(); }
  Count in_degree(NodeId v) const {
    return indptr[static_cast<std::size_t>(v) + 1] - indptr[static_cast<std::size_t>(v)];
  }
};

/// Consumes `graph`, freeing its arrays as they are converted. Throws InputError for lengths that do not
/// match, ids out of range, lists that are not ascending, and weights that are negative or not finite.
CompactGraph compact(graph::CscGraph graph, ThreadPool& pool);

/// How often each node occurs in `indices`: its heat.
std::vector<Count> occurrences(const CompactGraph& graph, ThreadPool& pool);

/// Whether, for all pairs, u is among the in-neighbors of v as often as v among those of u. Compares two sums
/// of hashes.
bool is_symmetric(const CompactGraph& graph, ThreadPool& pool);

}  // namespace strata::partition
