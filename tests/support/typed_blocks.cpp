// SPDX-License-Identifier: Apache-2.0
#include "support/typed_blocks.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <vector>

#include "strata/util/random.hpp"

namespace strata::test {

graph::GraphTypes citation_types() {
  return {.nodes = {"author", "paper", "venue"},
          .edges = {{"author", "writes", "paper"},
                    {"paper", "cites", "paper"},
                    {"paper", "rev_writes", "author"},
                    {"venue", "never", "author"},
                    {"venue", "shows", "paper"}},
          .node_offsets = {0, 20, 50, 60},
          .edge_offsets = {0, 100, 250, 350, 350, 400}};
}

sampling::Block TypedBlock::view() const {
  sampling::Block view = block.view();
  view.edge_ids = edge_ids.const_data_ptr<std::int64_t>();
  return view;
}

TypedBlock random_typed_block(const graph::GraphTypes& types, Count num_dst, Count num_src,
                              std::uint64_t seed) {
  std::uint64_t state = seed;
  const auto below = [&](Count bound) {
    return static_cast<Count>((state = mix64(state)) % static_cast<std::uint64_t>(bound));
  };
  const Count num_nodes = types.node_offsets.back();
  std::vector<std::int64_t> ids, edge_ids, relations, dst_types;
  for (Count node = 0; node < num_src; ++node)  // a permutation of the first nodes, repeated
    ids.push_back((node * 7 + static_cast<Count>(seed)) % num_nodes);
  const auto type_of = [&](Count id) {
    return std::ranges::upper_bound(types.node_offsets, id) - types.node_offsets.begin() - 1;
  };
  std::vector<std::vector<std::int32_t>> neighbors(at(num_dst));
  for (Count node = 0; node < num_dst; ++node) {
    dst_types.push_back(type_of(ids[at(node)]));
    for (std::size_t r = 0; r < types.edges.size(); ++r) {
      const Count size = types.edge_offsets[r + 1] - types.edge_offsets[r];
      if (size == 0 || types.edges[r].destination != types.nodes[at(dst_types.back())]) continue;
      for (Count left = below(5); left > 0; --left) {
        const auto source = static_cast<std::int32_t>(below(num_src));
        if (types.edges[r].source != types.nodes[at(Count{type_of(ids[at(Count{source})])})]) continue;
        neighbors[at(node)].push_back(source);
        edge_ids.push_back(types.edge_offsets[r] + below(size));
        relations.push_back(static_cast<std::int64_t>(r));
      }
    }
  }
  TypedBlock made{.block = block_of(neighbors, num_src),
                  .edge_ids = at::tensor(edge_ids, at::kLong),
                  .relations = at::tensor(relations, at::kLong),
                  .types = at::tensor(dst_types, at::kLong)};
  made.block.original_ids = at::tensor(ids, at::kLong);
  made.block.transposed_indptr = made.block.transposed_indices = at::Tensor();
  return made;
}

}  // namespace strata::test
