// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "strata/util/types.hpp"

/// What a run takes of memory beside its graph: what buffers are sized by, and what is left to the graph. A
/// run and a forecast use the same numbers.
namespace strata::plan {

inline constexpr double kBufferGrowth =
    1.25;  ///< of a buffer that turns out too small; some batches are larger
inline constexpr double kPaddingMargin = 1.04;  ///< of a fixed size over the largest batch that was measured
inline constexpr double kUsableGpu = 0.92;      ///< the driver, NCCL and fragmentation take the rest

/// What decides how much a step takes of a GPU.
struct StepShape {
  std::span<const int> fanouts;
  Count hidden = 0;
  int batches_in_flight = 3;
};

/// An upper bound of what a rank takes of a GPU beside the graph: a batch of which every pick of every fanout
/// finds a new node, with its activations, and the libraries.
std::int64_t training_device_bytes(const StepShape& step, Count seeds, Count num_nodes);

/// What is left to the graph of a GPU with so much free memory.
constexpr std::int64_t graph_bytes_of_gpu(std::int64_t free_bytes, std::int64_t training_bytes) {
  const double usable = static_cast<double>(free_bytes) * kUsableGpu;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(usable) - training_bytes);
}

/// What an input row of a batch takes of a GPU, in all buffers.
constexpr std::int64_t bytes_per_input_row(Count feature_cols, int batches_in_flight) {
  return static_cast<std::int64_t>(static_cast<double>(feature_cols) * sizeof(float) * kBufferGrowth *
                                   batches_in_flight);
}

}  // namespace strata::plan
