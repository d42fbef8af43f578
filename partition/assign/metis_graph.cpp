// SPDX-License-Identifier: Apache-2.0
#include "assign/metis_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

constexpr int kIdxBits = 8 * sizeof(idx_t);

void check_lists(Count num_nodes, const Count* begin) {
  MetisSize size{.nodes = num_nodes, .entries = begin[num_nodes]};
  for (Count v = 0; v < num_nodes; ++v)
    size.most_neighbors = std::max(size.most_neighbors, begin[v + 1] - begin[v]);
  check_metis_limits(size, kIdxBits);
}

}  // namespace

// Throws InputError where METIS computes integers larger than those it is given. Its other products
// (constraints by nodes, entries and nodes together in the pool of neighbors) are smaller than these.
void check_metis_limits(const MetisSize& size, int idx_bits) {
  if (idx_bits >= 64) return;
  const Count most = (Count{1} << (idx_bits - 1)) - 1;
  struct Limit {
    const char* what;
    Count value, most;
  };
  const Limit limits[] = {
      {"nodes", size.nodes, most / 4 - 1},           // 4 * (nvtxs + 1), AllocateWorkSpace
      {"neighbor entries", size.entries, most / 2},  // 2 * nedges, AllocateRefinementWorkSpace
      {"neighbors of one node", size.most_neighbors, most / 10 - 1},  // 10 * nnbrs, cnbrpoolGetNext
      {"of weight to balance, the imbalance included",                // maxpwgts, Greedy_McKWayCutOptimize
       static_cast<Count>(std::ceil(static_cast<double>(size.weight) * (1 + size.imbalance))), most}};
  for (const Limit& limit : limits) {
    if (limit.value <= limit.most) continue;
    throw InputError(fmt::format("METIS counts with {} bits here: the graph has {} {}, at most {} are safe",
                                 idx_bits, format_count(limit.value), limit.what, format_count(limit.most)),
                     "Use --method multilevel, --method random or range, --method file:PATH with the result "
                     "of another partitioner, or build "
                     "Strata with a METIS of 64-bit idx_t (IDXTYPEWIDTH 64).");
  }
}

MetisGraph make_metis_graph(const CompactGraph& graph, ThreadPool& pool) {
  check_metis_limits({.nodes = graph.num_nodes}, kIdxBits);
  MetisGraph result;
  result.lists = neighbor_lists(graph, check_lists, pool);
  result.xadj.assign(result.lists.begin, result.lists.begin + graph.num_nodes + 1);
  if constexpr (sizeof(idx_t) == sizeof(std::int32_t)) {
    result.adjncy = reinterpret_cast<const idx_t*>(result.lists.ids);
  } else {
    result.wide_ids.assign(result.lists.ids, result.lists.ids + result.xadj.back());
    result.adjncy = result.wide_ids.data();
  }
  return result;
}

}  // namespace strata::partition
