// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"

namespace strata::graph {

/// The edges of a compressed or sparse matrix. An owner of what `list` points to; do not copy it.
struct SparseEdges {
  EdgeList list;
  std::optional<Count> num_nodes = {};
  std::optional<EdgeWeights> weights = {};  ///< keep those of `list` valid
  NpyArray first = {}, second = {};         ///< keep `list` valid
  std::vector<std::int32_t> narrow = {};    ///< expanded ids, if the others have 32 bits
  std::vector<std::int64_t> wide = {};
  std::shared_ptr<const void> stored = {};  ///< expanded ids in a scratch file instead
};

/// In-neighbors of every node: indices[indptr[v]..indptr[v+1]), int32 or int64. Throws InputError with the
/// position if indptr does not rise from 0 to the length of `indices`.
SparseEdges list_edges(const std::filesystem::path& indptr, const std::filesystem::path& indices,
                       ScratchStore* scratch);

/// A sparse matrix as scipy.sparse.save_npz writes it (csr, csc or coo), in which an entry in row u and
/// column v is an edge from u to v. Values that are not all 1 become weights.
SparseEdges sparse_edges(const std::filesystem::path& path, Assembly& assembly);

/// The largest id of a list, which may be wrong; -1 for an empty one.
NodeId largest_id(const EdgeList& edges, ScratchStore* scratch);

}  // namespace strata::graph
