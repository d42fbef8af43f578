// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/forecast.hpp"

namespace strata::plan {

std::int64_t training_device_bytes(const StepShape& step, Count seeds, Count num_nodes) {
  double rows = static_cast<double>(std::min(seeds, num_nodes));
  double activations = 0;
  for (const int fanout : step.fanouts) {
    activations +=
        rows * static_cast<double>(step.hidden) * sizeof(float) * 8;  // forward, gradients and workspaces
    rows = fanout < 0 ? static_cast<double>(num_nodes)
                      : std::min(rows * (fanout + 1), static_cast<double>(num_nodes));
  }
  const double sampling = static_cast<double>(num_nodes) * 5 + rows * 64 * step.batches_in_flight;
  constexpr double kLibraries = 1.5 * (1 << 30);
  return static_cast<std::int64_t>(activations + sampling + kLibraries);
}

}  // namespace strata::plan
