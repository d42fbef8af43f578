// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::sampling {

/// Memory and sizes of one hop's block.
struct HopBuffers {
  cuda::Array<Count> indptr;
  cuda::Array<std::int32_t> counts;  // with a stride, instead of indptr
  cuda::Array<std::int32_t> indices;
  cuda::Array<EdgeId> edge_ids;
  cuda::Array<Count> transposed_indptr;
  cuda::Array<std::int32_t> transposed_indices;
  Count num_dst = 0, num_src = 0, num_edges = 0;
  int stride = 0;
};

/// Memory of one minibatch. All blocks share the node arrays: the src nodes of a hop are a prefix of the next
/// hop's.
struct MiniBatchBuffers {
  cuda::Array<NodeId> nodes;
  cuda::Array<NodeId> original_ids;
  cuda::Array<std::int32_t> in_degrees;
  cuda::Array<NodeId> sorted_nodes;  // with SamplerOptions::sorted_inputs
  cuda::Array<std::int32_t> sorted_positions;
  std::vector<HopBuffers> hops;  // from the seeds outwards
};

/// The blocks in the buffers, without transposes; the input layer (the last hop) comes first.
MiniBatch blocks_of(const MiniBatchBuffers& buffers, const SamplerOptions& options, Device device,
                    Count num_seeds);

/// Whether global ids fit 32 bits.
inline bool has_narrow_ids(const store::GraphView& view) {
  return view.num_nodes <= std::numeric_limits<std::int32_t>::max();
}

/// Throws InputError if the options leave input nodes as global ids and that is impossible.
void check_whole_inputs(const SamplerOptions& options, const store::GraphView& view, bool exchanges);

/// Throws InputError for a seed that is not in the graph or occurs twice.
[[noreturn]] void refuse_seed(NodeId node, Count num_nodes);

/// Throws Error if a minibatch has more distinct nodes than there are local ids.
void check_local_ids_suffice(Count num_nodes);

}  // namespace strata::sampling
