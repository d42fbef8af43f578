// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "strata/nn/edge_ops.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

bool is_below(std::int64_t id, Count count) {
  return static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(count);
}

void check(const EdgePairs& edges) {
  for (Count e = 0; e < edges.count; ++e) {
    if (is_below(edges.sources[e], edges.num_src) && is_below(edges.destinations[e], edges.num_dst)) continue;
    throw InputError(
        fmt::format("edge {} goes from node {} to node {}, of {} sources and {} destinations", e,
                    edges.sources[e], edges.destinations[e], edges.num_src, edges.num_dst),
        "Ids in edge_index count the rows of x from 0: sources in its first row, destinations in the "
        "second.");
  }
}

/// Turns the number of edges of each row, in indptr[0, rows), into the end of each row's list.
void add_up(Count* indptr, Count rows) {
  Count sum = 0;
  for (Count row = 0; row < rows; ++row) sum += indptr[row], indptr[row] = sum;
  indptr[rows] = sum;
}

}  // namespace

// Both sorts first have the ends of the lists in indptr. Filling the lists from the back leaves their begins.
void sort_edges(const EdgePairs& edges, const SortedEdges& out) {
  check(edges);
  std::fill_n(out.indptr, edges.num_dst + 1, 0);
  for (Count e = 0; e < edges.count; ++e) ++out.indptr[edges.destinations[e]];
  add_up(out.indptr, edges.num_dst);
  for (Count e = edges.count; e-- > 0;) {
    const Count at = --out.indptr[edges.destinations[e]];
    out.indices[at] = static_cast<std::int32_t>(edges.sources[e]);
    out.origins[at] = e;
  }
}

void transpose_edges(const EdgeLists& edges, Count num_src, const SortedEdges& out) {
  std::fill_n(out.indptr, num_src + 1, 0);
  for (Count e = 0; e < edges.indptr[edges.rows]; ++e) ++out.indptr[edges.indices[e]];
  add_up(out.indptr, num_src);
  for (Count row = edges.rows; row-- > 0;) {
    for (Count e = edges.indptr[row + 1]; e-- > edges.indptr[row];) {
      const Count at = --out.indptr[edges.indices[e]];
      out.indices[at] = static_cast<std::int32_t>(row);
      out.origins[at] = e;
    }
  }
}

}  // namespace strata::nn
