// SPDX-License-Identifier: Apache-2.0
#include "assign/metis_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::partition {
namespace {

constexpr Count kNodeGrain = Count{1} << 12;
constexpr int kIdxBits = 8 * sizeof(idx_t);

/// Lists of neighbors: `ids[begin[v] .. begin[v + 1])`, ascending. A view.
template <typename Id>
struct Lists {
  const Count* begin;
  const Id* ids;
};

std::size_t at(Count i) { return static_cast<std::size_t>(i); }

void check_lists(Count num_nodes, const Count* begin) {
  MetisSize size{.nodes = num_nodes, .entries = begin[num_nodes]};
  for (Count v = 0; v < num_nodes; ++v)
    size.most_neighbors = std::max(size.most_neighbors, begin[v + 1] - begin[v]);
  check_metis_limits(size, kIdxBits);
}

/// Calls visit(u) for every distinct neighbor u != v in the union of two ascending lists.
template <typename Id, typename Visit>
void merge_lists(Count v, const Lists<Id>& in, const Lists<Id>& out, Visit visit) {
  const Id *a = in.ids + in.begin[v], *a_end = in.ids + in.begin[v + 1];
  const Id *b = out.ids + out.begin[v], *b_end = out.ids + out.begin[v + 1];
  while (a != a_end || b != b_end) {
    const Id u = b == b_end || (a != a_end && *a < *b) ? *a : *b;
    while (a != a_end && *a == u) ++a;
    while (b != b_end && *b == u) ++b;
    if (u != v) visit(u);
  }
}

template <typename Id>
MetisGraph merged(Count num_nodes, const Lists<Id>& in, const Lists<Id>& out, ThreadPool& pool) {
  std::vector<Count> begin(at(num_nodes + 1));
  pool.parallel_for(num_nodes, kNodeGrain, [&](Count first, Count last) {
    for (Count v = first; v < last; ++v) merge_lists(v, in, out, [&](Id) { ++begin[at(v + 1)]; });
  });
  for (Count v = 0; v < num_nodes; ++v) begin[at(v + 1)] += begin[at(v)];
  check_lists(num_nodes, begin.data());
  MetisGraph result;
  result.xadj.assign(begin.begin(), begin.end());
  result.adjacency.resize(at(begin.back()));
  pool.parallel_for(num_nodes, kNodeGrain, [&](Count first, Count last) {
    for (Count v = first; v < last; ++v) {
      idx_t* to = result.adjacency.data() + begin[at(v)];
      merge_lists(v, in, out, [&](Id u) { *to++ = static_cast<idx_t>(u); });
    }
  });
  result.adjncy = result.adjacency.data();
  return result;
}

/// Whether no list repeats an id or contains its own node.
template <typename Id>
bool is_simple(Count num_nodes, const Lists<Id>& in, ThreadPool& pool) {
  std::atomic<bool> simple{true};
  pool.parallel_for(num_nodes, kNodeGrain, [&](Count first, Count last) {
    for (Count v = first; v < last; ++v) {
      for (Count e = in.begin[v]; e < in.begin[v + 1]; ++e) {
        const bool repeated = e > in.begin[v] && in.ids[e] == in.ids[e - 1];
        if (repeated || in.ids[e] == v) simple = false;
      }
    }
  });
  return simple;
}

template <typename Id>
MetisGraph borrowed(Count num_nodes, const Lists<Id>& in) {
  MetisGraph result;
  result.xadj.assign(in.begin, in.begin + num_nodes + 1);
  result.adjncy =
      reinterpret_cast<const idx_t*>(in.ids);  // REQUIRES: sizeof(Id) == sizeof(idx_t), both signed
  return result;
}

/// The lists of out-neighbors; ascending because the nodes are walked in order.
template <typename Id>
struct Transposed {
  std::vector<Count> begin;
  std::vector<Id> ids;

  Transposed(Count num_nodes, const Lists<Id>& in, Count num_edges)
      : begin(at(num_nodes + 1)), ids(at(num_edges)) {
    for (Count e = 0; e < num_edges; ++e) ++begin[at(static_cast<Count>(in.ids[e]) + 1)];
    for (Count v = 0; v < num_nodes; ++v) begin[at(v + 1)] += begin[at(v)];
    std::vector<Count> next(begin.begin(), begin.end() - 1);
    for (Count v = 0; v < num_nodes; ++v) {
      for (Count e = in.begin[v]; e < in.begin[v + 1]; ++e)
        ids[at(next[at(in.ids[e])]++)] = static_cast<Id>(v);
    }
  }
};

template <typename Id>
MetisGraph make(const CompactGraph& graph, const Id* indices, ThreadPool& pool) {
  const Lists<Id> in{graph.indptr.data(), indices};
  if (!is_symmetric(graph, pool)) {
    const Transposed<Id> out{graph.num_nodes, in, graph.num_edges()};
    return merged(graph.num_nodes, in, Lists<Id>{out.begin.data(), out.ids.data()}, pool);
  }
  if (sizeof(Id) == sizeof(idx_t) && is_simple(graph.num_nodes, in, pool)) {
    check_lists(graph.num_nodes, in.begin);
    return borrowed(graph.num_nodes, in);
  }
  return merged(graph.num_nodes, in, in, pool);
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
    throw InputError(
        fmt::format("METIS counts with {} bits here: the graph has {} {}, at most {} are safe", idx_bits,
                    format_count(limit.value), limit.what, format_count(limit.most)),
        "Use --method random or range, --method file:PATH with the result of another partitioner, or build "
        "Strata with a METIS of 64-bit idx_t (IDXTYPEWIDTH 64).");
  }
}

MetisGraph make_metis_graph(const CompactGraph& graph, ThreadPool& pool) {
  check_metis_limits({.nodes = graph.num_nodes}, kIdxBits);
  return graph.indices.span().visit([&](const auto* indices) { return make(graph, indices, pool); });
}

}  // namespace strata::partition
