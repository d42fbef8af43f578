// SPDX-License-Identifier: Apache-2.0
#include "gpu_budget.hpp"

#include <algorithm>

#include "planning/memory_plan.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/comm/resources.hpp"
#include "strata/cuda/device.hpp"

namespace strata::train {

GpuBudget gpu_budget(const RunContext& context, Count num_nodes, Count feature_cols) {
  if (!context.device.is_cuda()) return {};
  // A GPU's; the store divides it among its ranks.
  if (context.config.gpu_memory_bytes > 0) return {.graph_bytes = context.config.gpu_memory_bytes};
  constexpr double kUsable = 0.92;  // the driver, NCCL and fragmentation take the rest
  constexpr double kGrowth = 1.25;  // of buffers that turn out too small
  const double free = static_cast<double>(cuda::device_memory(context.device.index).free_bytes) * kUsable;
  const std::int64_t training =
      comm::resources_of(context.machine).gpu_sharers() *
      training_device_bytes(context.config, context.seeds_per_rank() * context.topology.num_machines(),
                            num_nodes);
  return {.graph_bytes = std::max<std::int64_t>(0, static_cast<std::int64_t>(free) - training),
          .bytes_per_input_row = static_cast<std::int64_t>(static_cast<double>(feature_cols) * sizeof(float) *
                                                           kGrowth * batches::Pipeline::kBuffers)};
}

}  // namespace strata::train
