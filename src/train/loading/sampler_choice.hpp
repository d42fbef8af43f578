// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "loading/seed_schedule.hpp"
#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// What samples for training: the GPU, or the CPU for it.
struct SamplerChoice {
  using Compute = comm::TopologyOptions::Compute;
  const store::MachineGraph* graph = nullptr;
  sampling::SamplerOptions options;
  sampling::ExchangeContext exchange;
  int num_buffers = 1;
  ThreadPool* pool = nullptr;
  Device device;                           ///< that trains
  Compute requested = Compute::automatic;  ///< see TrainConfig::sampler_device
  const SeedSchedule* schedule;            ///< of batches to measure with
  std::uint64_t seed = 0;
  bool log = false;  ///< this rank says what was chosen and why
};

/// The CPU samples for a GPU where that was asked for, or where all neighbor lists lie in host memory and it
/// is measured to be faster, in some batches each. Throws InputError for a requested that cannot be met.
std::unique_ptr<sampling::MiniBatchSampler> make_training_sampler(const SamplerChoice& choice);

}  // namespace strata::train
