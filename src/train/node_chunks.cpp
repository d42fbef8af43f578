#include "node_chunks.hpp"

namespace strata::train {

std::vector<NodeRange> cut_nodes(const Count* indptr, const NodeRange& nodes, const ChunkCost& cost,
                                 const ChunkLimits& limits) {
  std::vector<NodeRange> chunks;
  for (Count v = nodes.first; v < nodes.last(); ++v) {
    if (!chunks.empty()) {
      NodeRange& open = chunks.back();
      const Count edges = indptr[v + 1] - indptr[open.first];
      if (open.count < limits.nodes && cost.of(open.count + 1, edges) <= limits.bytes) {
        ++open.count;
        continue;
      }
    }
    chunks.push_back({.first = v, .count = 1});
  }
  return chunks;
}

}  // namespace strata::train
