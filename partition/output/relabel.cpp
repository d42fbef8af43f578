// SPDX-License-Identifier: Apache-2.0
#include "output/relabel.hpp"

#include <algorithm>

namespace strata::partition {

Relabeling relabel(const std::vector<std::int32_t>& part_of, int num_parts, const std::vector<Count>& heat,
                   ThreadPool& pool) {
  const auto at = [](NodeId i) { return static_cast<std::size_t>(i); };
  const auto num_nodes = static_cast<NodeId>(part_of.size());
  Relabeling result{std::vector<NodeId>(at(num_parts) + 1), std::vector<NodeId>(part_of.size()),
                    std::vector<NodeId>(part_of.size())};
  for (const std::int32_t part : part_of) ++result.offsets[at(part) + 1];
  for (int p = 0; p < num_parts; ++p) result.offsets[at(p) + 1] += result.offsets[at(p)];

  std::vector<NodeId> next(result.offsets.begin(), result.offsets.end() - 1);
  for (NodeId v = 0; v < num_nodes; ++v) result.original_ids[at(next[at(part_of[at(v)])]++)] = v;
  pool.parallel_for(num_parts, 1, [&](Count begin, Count end) {
    for (Count part = begin; part < end; ++part) {
      const auto first = result.original_ids.begin() + result.offsets[at(part)];
      const auto last = result.original_ids.begin() + result.offsets[at(part) + 1];
      std::stable_sort(first, last, [&](NodeId a, NodeId b) { return heat[at(a)] > heat[at(b)]; });
    }
  });
  pool.parallel_for(num_nodes, Count{1} << 16, [&](Count begin, Count end) {
    for (NodeId id = begin; id < end; ++id) result.global_ids[at(result.original_ids[at(id)])] = id;
  });
  return result;
}

}  // namespace strata::partition
