// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "run_context.hpp"

namespace strata::train {

/// What a GPU's memory holds of a graph; nothing on the cpu.
struct GpuBudget {
  std::int64_t graph_bytes = 0;          ///< of a GPU, for structure and features together
  std::int64_t bytes_per_input_row = 0;  ///< of these, what each input row of a batch takes; 0: not counted
};

/// --gpu-memory, or what is free now less an upper bound of what training takes: a batch of which every pick
/// of every fanout finds a new node, with its activations, and the libraries.
GpuBudget gpu_budget(const RunContext& context, Count num_nodes, Count feature_cols);

}  // namespace strata::train
