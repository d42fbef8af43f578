// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <utility>

#include "strata/graph/relation_ranges.hpp"
#include "strata/partition/build.hpp"
#include "strata/util/error.hpp"
#include "strata/util/random.hpp"

namespace strata::partition {
namespace {

constexpr Count kEdgeGrain = Count{1} << 18;
constexpr Count kNodeGrain = Count{1} << 13;

template <typename T>
bool all_fit(const std::vector<NodeId>& ids, ThreadPool& pool) {
  std::atomic<bool> fit{true};
  pool.parallel_for(static_cast<Count>(ids.size()), kEdgeGrain, [&](Count begin, Count end) {
    const auto [low, high] = std::minmax_element(ids.begin() + begin, ids.begin() + end);
    if (*low < 0 || *high > std::numeric_limits<T>::max()) fit = false;
  });
  return fit;
}

IdArray narrow(std::vector<NodeId> ids, ThreadPool& pool) {
  if (!all_fit<std::int32_t>(ids, pool)) return IdArray{std::move(ids)};
  std::vector<std::int32_t> small(ids.size());
  pool.parallel_for(static_cast<Count>(ids.size()), kEdgeGrain, [&](Count begin, Count end) {
    std::transform(ids.begin() + begin, ids.begin() + end, small.begin() + begin,
                   [](NodeId id) { return static_cast<std::int32_t>(id); });
  });
  return IdArray{std::move(small)};
}

/// Checks lists that need not ascend from one relation to the next.
void check_typed(const graph::CscGraph& graph, const graph::GraphTypes& types, ThreadPool& pool) {
  if (graph.edge_ids.empty() && graph.num_edges() > 0 && types.edges.size() > 1)
    throw InputError("graph: several relations without edge ids");
  const graph::RelationRanges ranges(types);
  pool.parallel_for(graph.num_nodes, kNodeGrain, [&](Count begin, Count end) {
    for (Count v = begin; v < end; ++v) {
      const auto list = [&]<typename T>(const std::vector<T>& values) {
        const auto first = at(graph.indptr[at(v)]), size = at(graph.indptr[at(v) + 1]) - first;
        return values.empty() ? std::span<const T>() : std::span(values).subspan(first, size);
      };
      const std::string problem = ranges.problem_of(v, list(graph.indices), list(graph.edge_ids));
      if (!problem.empty()) throw InputError("graph: " + problem);
    }
  });
}

void check(const graph::CscGraph& graph, const graph::GraphTypes& types, ThreadPool& pool) {
  const auto num_nodes = at(graph.num_nodes);
  if (graph.indptr.size() != num_nodes + 1 || graph.indptr.front() != 0 ||
      graph.indptr.back() != graph.num_edges() || !std::is_sorted(graph.indptr.begin(), graph.indptr.end())) {
    throw InputError(
        fmt::format("graph: indptr of {} nodes and {} edges does not rise from 0 to the number of edges",
                    graph.num_nodes, graph.num_edges()));
  }
  if (!graph.edge_ids.empty() && graph.edge_ids.size() != graph.indices.size()) {
    throw InputError(
        fmt::format("graph: {} edge ids for {} edges", graph.edge_ids.size(), graph.indices.size()));
  }
  if (!graph.weights.empty() && graph.weights.size() != graph.indices.size()) {
    throw InputError(
        fmt::format("graph: {} weights for {} edges", graph.weights.size(), graph.indices.size()));
  }
  const auto bad = std::ranges::find_if_not(graph.weights, graph::is_edge_weight);
  if (bad != graph.weights.end())
    throw InputError(fmt::format("graph: an edge has the weight {}, which is negative or not finite", *bad));
  if (types.several()) return check_typed(graph, types, pool);
  pool.parallel_for(graph.num_nodes, kNodeGrain, [&](Count begin, Count end) {
    for (Count v = begin; v < end; ++v) {
      NodeId last = 0;
      for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v) + 1]; ++e) {
        const NodeId u = graph.indices[at(e)];
        if (u < last || u >= graph.num_nodes) {
          throw InputError(
              fmt::format("graph: in-neighbor {} of node {} is out of range [0, {}) or out of order", u, v,
                          graph.num_nodes));
        }
        last = u;
      }
    }
  });
}

}  // namespace

CompactGraph compact(graph::CscGraph graph, ThreadPool& pool, graph::GraphTypes types) {
  check(graph, types, pool);
  CompactGraph result;
  result.types = std::move(types);
  result.num_nodes = graph.num_nodes;
  result.indptr = std::move(graph.indptr);
  result.indices = narrow(std::move(graph.indices), pool);
  result.edge_ids = narrow(std::move(graph.edge_ids), pool);
  result.own_weights = std::move(graph.weights);
  return result;
}

CompactGraph compact(graph::StoredLists lists, ScratchStore& scratch) {
  CompactGraph result;
  result.num_nodes = lists.num_nodes();
  result.indptr = std::move(lists.indptr);
  result.indices = IdArray{lists.indices, std::move(lists.indices_memory)};
  result.edge_ids = IdArray{lists.edge_ids, std::move(lists.edge_ids_memory)};
  result.stored_weights = std::move(lists.weights);
  result.scratch = &scratch;
  return result;
}

std::vector<Count> occurrences(const CompactGraph& graph, ThreadPool& pool) {
  std::vector<Count> heat(at(graph.num_nodes));
  graph.indices.span().visit([&](const auto* indices) {
    pool.parallel_for(graph.num_edges(), kEdgeGrain, [&](Count begin, Count end) {
      graph.release_pages();
      for (Count e = begin; e < end; ++e) {
        std::atomic_ref{heat[at(indices[e])]}.fetch_add(1, std::memory_order_relaxed);
      }
    });
  });
  return heat;
}

bool is_symmetric(const CompactGraph& graph, ThreadPool& pool) {
  std::atomic<std::uint64_t> difference{0};
  graph.indices.span().visit([&](const auto* indices) {
    pool.parallel_for(graph.num_nodes, kNodeGrain, [&](Count begin, Count end) {
      graph.release_pages();
      std::uint64_t sum = 0;
      for (Count v = begin; v < end; ++v) {
        const std::uint64_t v_hash = mix64(static_cast<std::uint64_t>(v));
        for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v) + 1]; ++e) {
          const auto u = static_cast<std::uint64_t>(indices[e]);
          sum += mix64(v_hash + u) - mix64(mix64(u) + static_cast<std::uint64_t>(v));
        }
      }
      difference += sum;
    });
  });
  return difference == 0;
}

}  // namespace strata::partition
