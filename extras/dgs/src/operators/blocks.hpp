// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "operators/sampling.hpp"

namespace strata::dgs {

/// The arguments of a mini-batch.
struct BlockArguments {
  at::Tensor seeds;                   ///< distinct ids
  std::vector<std::int64_t> fanouts;  ///< of the seeds first
  bool inputs_by_id = false;          ///< the last hop has ids of the graph, and two lists per node
  bool input_gradients = true;        ///< the last hop has its out-lists, too
};

/// (nodes, starts, neighbors, out_starts, out_ends), one tensor per hop, that of the seeds first.
///
/// `nodes` are distinct ids in the type of the indices: the seeds, then what each hop found. A hop starts
/// from the first of them; `starts` int64 [those + 1] says where the neighbors of each begin. `neighbors`
/// int32 are positions among the nodes. The out-lists are the same edges by their neighbors, with ascending
/// ends: int64 [nodes of the hop + 1] and int32; empty for the last hop without input_gradients.
///
/// With inputs_by_id the last hop finds no nodes. Its neighbors are ids, there are two lists for each of its
/// nodes, the neighbors and the node itself, and no out-lists:
///
///     node 7 with neighbors 3 and 9, node 4 with none:   starts 0 2 3 3 4,   neighbors 3 9 7 4
using Tensors = std::vector<at::Tensor>;
using Blocks = std::tuple<at::Tensor, Tensors, Tensors, Tensors, Tensors>;

/// Samples without replacement, in proportion to the graph's `probs` if it has some. Each hop waits for its
/// number of edges and its number of nodes. Throws InputError unless seeds are distinct and positions have 32
/// bits.
Blocks sample_blocks(const BlockArguments& arguments, const ChunkedGraph& graph);

}  // namespace strata::dgs
