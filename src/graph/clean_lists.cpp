#include "clean_lists.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "strata/graph/build_csc.hpp"

namespace strata::graph {
namespace {

constexpr Count kNodesPerPiece = 4096;

struct SharedCounts {
  std::atomic<Count> self_loops{0}, duplicates{0}, duplicate_loops{0};
};

/// Entries of the list of `node` that are to stay.
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
  pool.parallel_for(graph.num_nodes, kNodesPerPiece, [&](Count begin, Count end) {
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

/// Moves the entries that stay to the front. In place and sequential: memory counts more than time here.
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

/// Walks all destinations in ascending order; `cursor[u]` is the next entry of list u that must be met.
///
/// If every edge has its opposite, then v's entry u is met exactly when cursor[u] stands at v.
class OppositeCheck {
 public:
  OppositeCheck(const CscGraph& graph, NodeId begin, NodeId end)
      : graph_(graph),
        begin_(begin),
        end_(end),
        cursor_(graph.indptr.begin() + begin, graph.indptr.begin() + end) {}

  bool holds(const std::atomic<bool>& give_up) {
    for (NodeId v = 0; v < graph_.num_nodes && !give_up.load(std::memory_order_relaxed); ++v)
      if (!meet_list(v)) return false;
    for (NodeId u = begin_; u < end_; ++u)
      if (next_entry(u) != list_end(u)) return false;
    return true;
  }

 private:
  Count list_end(NodeId u) const { return graph_.indptr[static_cast<std::size_t>(u) + 1]; }

  Count next_entry(NodeId u) const {
    Count e = cursor_[static_cast<std::size_t>(u - begin_)];
    const Count first = graph_.indptr[static_cast<std::size_t>(u)], last = list_end(u);
    while (e > first && e < last && source(e) == source(e - 1)) ++e;
    return e;
  }

  bool meet_list(NodeId v) {
    const NodeId* const sources = graph_.indices.data();
    const NodeId* const last = sources + list_end(v);
    const NodeId* at = std::lower_bound(sources + graph_.indptr[static_cast<std::size_t>(v)], last, begin_);
    for (NodeId previous = -1; at != last && *at < end_; ++at) {
      if (*at == previous) continue;
      previous = *at;
      const Count e = next_entry(previous);
      if (e == list_end(previous) || source(e) != v) return false;
      cursor_[static_cast<std::size_t>(previous - begin_)] = e + 1;
    }
    return true;
  }

  NodeId source(Count e) const { return graph_.indices[static_cast<std::size_t>(e)]; }

  const CscGraph& graph_;
  NodeId begin_, end_;
  std::vector<Count> cursor_;
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
