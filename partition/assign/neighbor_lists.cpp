// SPDX-License-Identifier: Apache-2.0
#include "assign/neighbor_lists.hpp"

#include <fmt/format.h>

#include <atomic>
#include <limits>

#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

constexpr Count kNodeGrain = Count{1} << 12;

/// Lists of neighbors: `ids[begin[v] .. begin[v + 1])`, ascending. A view.
template <typename Id>
struct Lists {
  const Count* begin;
  const Id* ids;
};

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
NeighborLists merged(Count num_nodes, const Lists<Id>& in, const Lists<Id>& out, const AcceptSizes& accept,
                     ThreadPool& pool) {
  NeighborLists result;
  result.num_nodes = num_nodes;
  std::vector<Count>& begin = result.own_begin;
  begin.resize(at(num_nodes + 1));
  ProgressBar progress("join lists", 2 * num_nodes, "nodes");
  pool.parallel_for(num_nodes, kNodeGrain, [&](Count first, Count last) {
    for (Count v = first; v < last; ++v) merge_lists(v, in, out, [&](Id) { ++begin[at(v + 1)]; });
    progress.advance(last - first);
  });
  for (Count v = 0; v < num_nodes; ++v) begin[at(v + 1)] += begin[at(v)];
  if (accept) accept(num_nodes, begin.data());
  result.own_ids.resize(at(begin.back()));
  pool.parallel_for(num_nodes, kNodeGrain, [&](Count first, Count last) {
    for (Count v = first; v < last; ++v) {
      std::int32_t* to = result.own_ids.data() + begin[at(v)];
      merge_lists(v, in, out, [&](Id u) { *to++ = static_cast<std::int32_t>(u); });
    }
    progress.advance(last - first);
  });
  result.begin = begin.data();
  result.ids = result.own_ids.data();
  return result;
}

/// Whether no list repeats an id or contains its own node.
template <typename Id>
bool is_simple(const CompactGraph& graph, const Lists<Id>& in, ThreadPool& pool) {
  std::atomic<bool> simple{true};
  pool.parallel_for(graph.num_nodes, kNodeGrain, [&](Count first, Count last) {
    graph.release_pages();
    for (Count v = first; v < last; ++v) {
      for (Count e = in.begin[v]; e < in.begin[v + 1]; ++e) {
        const bool repeated = e > in.begin[v] && in.ids[e] == in.ids[e - 1];
        if (repeated || in.ids[e] == v) simple = false;
      }
    }
  });
  return simple;
}

/// The lists of out-neighbors; ascending because the nodes are walked in order.
template <typename Id>
struct Transposed {
  std::vector<Count> begin;
  std::vector<Id> ids;

  Lists<Id> lists() const { return {begin.data(), ids.data()}; }

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

NeighborLists stored(graph::StoredLists lists, const AcceptSizes& accept) {
  NeighborLists result;
  result.num_nodes = lists.num_nodes();
  result.stored = std::move(lists);
  result.begin = result.stored.indptr.data();
  result.ids = static_cast<const std::int32_t*>(result.stored.indices.data);
  if (accept) accept(result.num_nodes, result.begin);
  return result;
}

template <typename Id>
NeighborLists make(const CompactGraph& graph, const Id* indices, const AcceptSizes& accept,
                   ThreadPool& pool) {
  const Lists<Id> in{graph.indptr.data(), indices};
  const bool ascends = graph.types.edges.size() == 1;  // else only over each relation
  const bool symmetric = ascends && is_symmetric(graph, pool);
  if (!symmetric && graph.scratch == nullptr) {
    const Transposed<Id> out{graph.num_nodes, in, graph.num_edges()};
    if (ascends) return merged(graph.num_nodes, in, out.lists(), accept, pool);
    const Transposed<Id> sorted{graph.num_nodes, out.lists(), graph.num_edges()};
    return merged(graph.num_nodes, sorted.lists(), out.lists(), accept, pool);
  }
  if constexpr (sizeof(Id) == sizeof(std::int32_t)) {
    if (symmetric && is_simple(graph, in, pool)) {
      if (accept) accept(graph.num_nodes, in.begin);
      NeighborLists result;
      result.num_nodes = graph.num_nodes;
      result.begin = in.begin;
      result.ids = indices;
      return result;
    }
    if (symmetric && graph.scratch != nullptr)
      return stored(graph::neighbors_of_symmetric(graph.indptr, indices, *graph.scratch, pool), accept);
  }
  if (graph.scratch != nullptr)
    return stored(graph::neighbors_of(graph.indptr, graph.indices.span(), *graph.scratch, pool), accept);
  return merged(graph.num_nodes, in, in, accept, pool);
}

}  // namespace

NeighborLists neighbor_lists(const CompactGraph& graph, const AcceptSizes& accept, ThreadPool& pool) {
  constexpr Count kMost = std::numeric_limits<std::int32_t>::max() - 1;
  if (graph.num_nodes > kMost) {
    throw InputError(fmt::format("{} nodes: few cut edges are looked for among at most {}",
                                 format_count(graph.num_nodes), format_count(kMost)),
                     "Use --method random or range.");
  }
  return graph.indices.span().visit([&](const auto* indices) { return make(graph, indices, accept, pool); });
}

}  // namespace strata::partition
