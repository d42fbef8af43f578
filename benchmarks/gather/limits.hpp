// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::benchmark {

struct Timing {
  int warm_up = 3;
  int runs = 10;
};

struct Median {
  double seconds = 0;
  double cores = 0;  ///< CPU seconds of this process per second
};
/// Median time of `work` on `stream`, of the slowest rank; all ranks begin each run together. Collective.
Median median_of(const comm::Machine& machine, const cuda::Stream& stream, const Timing& timing,
                 const std::function<void()>& work);

/// The hardware's best rates in bytes per second of this GPU, while all GPUs of the machine do the same.
struct Limits {
  double device_copy = 0;  ///< read + written
  double host_to_device = 0;
  double peer_copy = 0;   ///< from the next GPU; 0 for one GPU
  double all_to_all = 0;  ///< NCCL, bytes that leave a GPU; 0 for one GPU
};
/// Measures them. Collective over a machine with one GPU per rank.
Limits measure_limits(const comm::Machine& machine, const cuda::Stream& stream, const Timing& timing);

}  // namespace strata::benchmark
