// SPDX-License-Identifier: Apache-2.0
#include "evaluation/node_chunks.hpp"

#include <algorithm>
#include <numeric>

namespace strata::train {
namespace {

class ChunkCutter {
 public:
  ChunkCutter(const ChunkCost& cost, const ChunkLimits& limits) : cost_(cost), limits_(limits) {}

  void add(NodeId node, Count row, Count edges) {
    if (limits_.splits_lists && cost_.of(1, edges) > limits_.bytes && edges > ChunkLimits::kLeastPiece)
      return add_pieces(node, row, edges);
    if (!chunks_.empty() && !chunks_.back().piece) {
      NodeChunk& open = chunks_.back();
      if (open.count < limits_.nodes && cost_.of(open.count + 1, edges_ + edges) <= limits_.bytes) {
        ++open.count;
        edges_ += edges;
        return;
      }
    }
    chunks_.push_back({.first = node, .first_row = row, .count = 1});
    edges_ = edges;
  }
  std::vector<NodeChunk> take() { return std::move(chunks_); }

 private:
  void add_pieces(NodeId node, Count row, Count edges) {
    const Count room = (limits_.bytes - cost_.of(1, 0)) / std::max<Count>(1, cost_.edge_bytes),
                most = std::max(ChunkLimits::kLeastPiece, room);
    for (Count begin = 0; begin < edges; begin += most) {
      const Count end = std::min(begin + most, edges);
      chunks_.push_back({.first = node,
                         .first_row = row,
                         .count = 1,
                         .piece = {{.begin = begin, .end = end, .last = end == edges}}});
    }
  }

  ChunkCost cost_;
  ChunkLimits limits_;
  std::vector<NodeChunk> chunks_;
  Count edges_ = 0;  // of the last chunk
};

}  // namespace

Count LayerNodes::rows() const {
  if (set_ == nullptr) return graph_->num_local;
  return set_->rank(graph_->first_node + graph_->num_local) - first_rank();
}

std::vector<NodeId> LayerNodes::machine_offsets() const {
  std::vector<NodeId> offsets(machine_offsets_.begin(), machine_offsets_.end());
  if (set_ != nullptr) {
    for (NodeId& offset : offsets) offset = set_->rank(offset);
  }
  return offsets;
}

std::vector<NodeChunk> LayerNodes::cut(int part, int parts, const ChunkCost& cost,
                                       const ChunkLimits& limits) const {
  ChunkCutter cutter(cost, limits);
  const Count begin = rows() * part / parts, end = rows() * (part + 1) / parts;
  const auto add = [&](NodeId node, Count row) {
    const NodeId v = node - graph_->first_node;
    cutter.add(node, row, graph_->indptr[v + 1] - graph_->indptr[v]);
  };
  if (set_ == nullptr) {
    for (Count row = begin; row < end; ++row) add(graph_->first_node + row, row);
  } else {
    Count row = begin;
    set_->for_ranks(first_rank() + begin, first_rank() + end, [&](NodeId node) { add(node, row++); });
  }
  return cutter.take();
}

void LayerNodes::list(const NodeChunk& chunk, std::vector<NodeId>& global_ids) const {
  global_ids.resize(at(chunk.count));
  if (set_ == nullptr) {
    std::iota(global_ids.begin(), global_ids.end(), chunk.first);
    return;
  }
  const Count first = first_rank() + chunk.first_row;
  set_->for_ranks(first, first + chunk.count,
                  [next = global_ids.begin()](NodeId node) mutable { *next++ = node; });
}

}  // namespace strata::train
