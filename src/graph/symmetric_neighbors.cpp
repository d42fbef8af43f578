// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "strata/graph/stored_graph.hpp"

namespace strata::graph {
namespace {

constexpr Count kNodesAtOnce = 4096;
constexpr Count kEntriesAtOnce = Count{1} << 16;  // that are written together

}  // namespace

StoredLists neighbors_of_symmetric(std::span<const Count> indptr, const std::int32_t* indices,
                                   ScratchStore& scratch, ThreadPool& pool) {
  const Count num_nodes = std::ssize(indptr) - 1;
  const auto visit_neighbors = [&](Count v, auto&& visit) {
    for (Count e = indptr[at(v)]; e < indptr[at(v + 1)]; ++e)
      if (indices[e] != v && (e == indptr[at(v)] || indices[e] != indices[e - 1])) visit(indices[e]);
  };
  StoredLists lists;
  lists.indptr.assign(at(num_nodes + 1), 0);
  pool.parallel_for(num_nodes, kNodesAtOnce, [&](Count begin, Count end) {
    Count seen = kEntriesAtOnce;
    for (Count v = begin; v < end; ++v) {
      if (seen >= kEntriesAtOnce) {
        scratch.trim();
        seen = 0;
      }
      visit_neighbors(v, [&](std::int32_t) { ++lists.indptr[at(v + 1)]; });
      seen += indptr[at(v + 1)] - indptr[at(v)];
    }
  });
  for (Count v = 0; v < num_nodes; ++v) lists.indptr[at(v + 1)] += lists.indptr[at(v)];
  ScratchFile file(scratch);
  file.reserve(at(lists.num_edges()) * sizeof(std::int32_t));
  pool.parallel_for(num_nodes, kNodesAtOnce, [&](Count begin, Count end) {
    std::vector<std::int32_t> held;
    Count place = lists.indptr[at(begin)];
    const auto write = [&] {
      file.write_at(at(place) * sizeof(std::int32_t), held.data(), held.size() * sizeof(std::int32_t));
      place += std::ssize(held);
      held.clear();
      scratch.trim();
    };
    for (Count v = begin; v < end; ++v)
      visit_neighbors(v, [&](std::int32_t u) {
        held.push_back(u);
        if (std::ssize(held) == kEntriesAtOnce) write();
      });
    write();
  });
  const ScratchArray<std::int32_t> ids{std::move(file).map(), lists.num_edges()};
  lists.indices = {ids.data(), ids.size(), false};
  lists.indices_memory = ids.keep_alive();
  return lists;
}

}  // namespace strata::graph
