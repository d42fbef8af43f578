// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/batches/pipeline.hpp"
#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::batches {

/// What is needed to choose the sampler of a training run: the GPU, or the CPU for it.
struct SamplerChoice {
  using Compute = comm::TopologyOptions::Compute;
  const store::MachineGraph* graph = nullptr;
  sampling::SamplerOptions options;
  sampling::ExchangeContext exchange;
  int num_buffers = 1;
  ThreadPool* pool = nullptr;
  Device device;                           ///< device that trains
  Compute requested = Compute::automatic;  ///< see TrainConfig::sampler_device
  const SeedSchedule* schedule;            ///< gives the batches to measure with
  std::uint64_t seed = 0;
  bool log = false;  ///< this rank logs what was chosen and why
};

/// Whether the GPU samples in any case, so that nothing is measured.
bool samples_on_gpu(const SamplerChoice& choice);

/// Makes the sampler. The CPU samples for a GPU if that was requested, or if all neighbor lists lie in host
/// memory and it is faster, which some batches on each measure. Throws InputError if `requested` is
/// impossible.
std::unique_ptr<sampling::MiniBatchSampler> make_training_sampler(const SamplerChoice& choice);

}  // namespace strata::batches
