// SPDX-License-Identifier: Apache-2.0
#include "clean_lists.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "build_csc.hpp"

namespace strata::graph {
namespace {

constexpr Count kListsPerPiece = 4096;

struct SharedCounts {
  std::atomic<Count> self_loops{0}, duplicates{0}, duplicate_loops{0};
};

/// The number of entries of the list of `node` that stay.
template <typename Keep>
void visit_list(const CscGraph& graph, NodeId node, Keep&& visit) {
  const Count first = graph.indptr[static_cast<std::size_t>(node)],
              last = graph.indptr[static_cast<std::size_t>(node) + 1];
  const NodeId* const sources = graph.indices.data();
  for (Count e = first; e < last; ++e)
    visit(e, sources[e] == node, e > first && sources[e] == sources[e - 1]);
}

ListCounts count_entries(const CscGraph& graph, ThreadPool& pool) {
  SharedCounts shared;
  pool.parallel_for(graph.num_nodes, kListsPerPiece, [&](Count begin, Count end) {
    ListCounts piece;
    for (NodeId v = begin; v < end; ++v)
      visit_list(graph, v, [&](Count, bool loop, bool again) {
        piece.self_loops += loop;
        piece.duplicates += again;
        piece.duplicate_loops += loop && again;
      });
    shared.self_loops += piece.self_loops;
    shared.duplicates += piece.duplicates;
    shared.duplicate_loops += piece.duplicate_loops;
  });
  return {.entries = graph.num_edges(),
          .self_loops = shared.self_loops,
          .duplicates = shared.duplicates,
          .duplicate_loops = shared.duplicate_loops};
}

/// Moves the entries that stay to the front. It is in place and sequential, because memory matters more than
/// time here.
void compact(CscGraph& graph, const CleanPolicies& policies) {
  const bool drop_loops = policies.self_loops == EdgePolicy::remove,
             drop_again = policies.duplicates == EdgePolicy::remove;
  const bool has_ids = !graph.edge_ids.empty();
  Count place = 0, first = 0;
  for (NodeId v = 0; v < graph.num_nodes; ++v) {
    const Count last = graph.indptr[static_cast<std::size_t>(v) + 1];
    NodeId previous = -1;
    for (Count e = first; e < last; ++e) {
      const NodeId source = graph.indices[static_cast<std::size_t>(e)];
      const bool again = source == previous;
      previous = source;
      if ((again && drop_again) || (source == v && drop_loops)) continue;
      graph.indices[static_cast<std::size_t>(place)] = source;
      if (has_ids)
        graph.edge_ids[static_cast<std::size_t>(place)] = graph.edge_ids[static_cast<std::size_t>(e)];
      ++place;
    }
    first = last;
    graph.indptr[static_cast<std::size_t>(v) + 1] = place;
  }
  graph.indices.resize(static_cast<std::size_t>(place));
  if (has_ids) graph.edge_ids.resize(static_cast<std::size_t>(place));
}

/// Walks all destinations v in ascending order, and their neighbors u > v in [begin, end). If every edge has
/// its opposite, the next unread entry of list u must be v, and in the end each list must be read up to u
/// itself.
class OppositeCheck {
 public:
  OppositeCheck(const CscGraph& graph, NodeId begin, NodeId end) : graph_(graph), begin_(begin), end_(end) {
    lists_.reserve(static_cast<std::size_t>(end - begin));
    for (NodeId u = begin; u < end; ++u)
      lists_.push_back({graph.indptr[static_cast<std::size_t>(u)], list_end(u)});
  }

  bool holds(const std::atomic<bool>& give_up) {
    for (NodeId v = 0; v < end_ && !give_up.load(std::memory_order_relaxed); ++v)
      if (!meet_list(v)) return false;
    for (NodeId u = begin_; u < end_; ++u) {
      const Unread& list = lists_[static_cast<std::size_t>(u - begin_)];
      if (list.next != list.end && source(list.next) < u) return false;
    }
    return true;
  }

 private:
  struct Unread {
    Count next, end;
  };

  Count list_end(NodeId u) const { return graph_.indptr[static_cast<std::size_t>(u) + 1]; }
  NodeId source(Count e) const { return graph_.indices[static_cast<std::size_t>(e)]; }

  bool meet_list(NodeId v) {
    const NodeId* const first = graph_.indices.data() + graph_.indptr[static_cast<std::size_t>(v)];
    const NodeId* const last = graph_.indices.data() + list_end(v);
    NodeId previous = -1;
    for (const NodeId* at = std::lower_bound(first, last, std::max(begin_, v + 1)); at != last && *at < end_;
         ++at) {
      if (*at == previous) continue;
      previous = *at;
      Unread& list = lists_[static_cast<std::size_t>(previous - begin_)];
      if (list.next == list.end || source(list.next) != v) return false;
      while (list.next != list.end && source(list.next) == v) ++list.next;  // parallel edges
    }
    return true;
  }

  const CscGraph& graph_;
  NodeId begin_, end_;
  std::vector<Unread> lists_;
};

}  // namespace

ListCounts clean_lists(CscGraph& graph, const CleanPolicies& policies, ThreadPool& pool) {
  const ListCounts met = count_entries(graph, pool);
  const CleaningReport report = report_of(met, policies);
  if (report.duplicates_removed + report.self_loops_removed > 0) compact(graph, policies);
  return met;
}

CleaningReport report_of(const ListCounts& met, const CleanPolicies& policies) {
  CleaningReport report{
      .edges_read = met.entries, .self_loops = met.self_loops, .duplicates = met.duplicates};
  const bool drop_loops = policies.self_loops == EdgePolicy::remove;
  if (drop_loops) report.self_loops_removed = met.self_loops;
  if (policies.duplicates == EdgePolicy::remove)
    report.duplicates_removed = met.duplicates - (drop_loops ? met.duplicate_loops : 0);
  return report;
}

bool is_symmetric(const CscGraph& graph, ThreadPool& pool) {
  std::atomic<bool> asymmetric{false};
  const Count piece = std::max<Count>(1, (graph.num_nodes + pool.num_threads() - 1) / pool.num_threads());
  pool.parallel_for(graph.num_nodes, piece, [&](Count begin, Count end) {
    if (!OppositeCheck(graph, begin, end).holds(asymmetric)) asymmetric = true;
  });
  return !asymmetric;
}

}  // namespace strata::graph
