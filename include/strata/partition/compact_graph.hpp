// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <variant>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// Ids in 32 bits where all of them fit, in 64 elsewhere. An owner.
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

/// A CscGraph in half the memory, checked. Ids are original ids.
struct CompactGraph {
  Count num_nodes = 0;
  std::vector<Count> indptr;        ///< [num_nodes + 1]
  IdArray indices;                  ///< [num_edges], each list ascending
  IdArray edge_ids;                 ///< [num_edges], or empty: edge e has id e
  std::vector<float> weights = {};  ///< [num_edges], or empty: none

  Count num_edges() const { return indptr.back(); }
  Count in_degree(NodeId v) const {
    return indptr[static_cast<std::size_t>(v) + 1] - indptr[static_cast<std::size_t>(v)];
  }
};

/// Consumes `graph`, freeing its arrays as they are converted. Throws InputError: lengths that do not fit,
/// ids out of range, lists that are not ascending, weights that are negative or not finite.
CompactGraph compact(graph::CscGraph graph, ThreadPool& pool);

/// Times that each node occurs in `indices`: its heat.
std::vector<Count> occurrences(const CompactGraph& graph, ThreadPool& pool);

/// Is u among the in-neighbors of v as often as v among those of u, for all pairs? (Told from two sums of
/// hashes.)
bool is_symmetric(const CompactGraph& graph, ThreadPool& pool);

}  // namespace strata::partition
