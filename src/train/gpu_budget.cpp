// SPDX-License-Identifier: Apache-2.0
#include "gpu_budget.hpp"

#include <algorithm>

#include "strata/comm/resources.hpp"
#include "strata/cuda/device.hpp"
#include "strata/train/pipeline.hpp"

namespace strata::train {
namespace {

std::int64_t training_device_bytes(const RunContext& context, Count num_nodes) {
  // The upper bounds of a minibatch but for its input rows: every pick of every fanout finds a new node.
  const TrainConfig& config = context.config;
  const Count seeds = context.seeds_per_rank() * context.topology.num_machines();
  double rows = static_cast<double>(std::min(seeds, num_nodes));
  double activations = 0;
  for (const int fanout : config.fanouts) {
    activations +=
        rows * static_cast<double>(config.hidden) * sizeof(float) * 8;  // forward, gradients and workspaces
    rows = fanout < 0 ? static_cast<double>(num_nodes)
                      : std::min(rows * (fanout + 1), static_cast<double>(num_nodes));
  }
  const double sampling = static_cast<double>(num_nodes) * 5 + rows * 64 * Pipeline::kBuffers;
  constexpr double kLibraries = 1.5 * (1 << 30);
  return static_cast<std::int64_t>(activations + sampling + kLibraries);
}

}  // namespace

GpuBudget gpu_budget(const RunContext& context, Count num_nodes, Count feature_cols) {
  if (!context.device.is_cuda()) return {};
  // A GPU's; the store divides it among its ranks.
  if (context.config.gpu_memory_bytes > 0) return {.graph_bytes = context.config.gpu_memory_bytes};
  constexpr double kUsable = 0.92;  // the driver, NCCL and fragmentation take the rest
  constexpr double kGrowth = 1.25;  // of buffers that turn out too small
  const double free = static_cast<double>(cuda::device_memory(context.device.index).free_bytes) * kUsable;
  const std::int64_t training =
      comm::resources_of(context.machine).gpu_sharers() * training_device_bytes(context, num_nodes);
  return {.graph_bytes = std::max<std::int64_t>(0, static_cast<std::int64_t>(free) - training),
          .bytes_per_input_row = static_cast<std::int64_t>(static_cast<double>(feature_cols) * sizeof(float) *
                                                           kGrowth * Pipeline::kBuffers)};
}

}  // namespace strata::train
