// SPDX-License-Identifier: Apache-2.0
#include "sampler_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::batches {
namespace {

using Compute = SamplerChoice::Compute;
using Sampler = std::unique_ptr<sampling::MiniBatchSampler>;

/// The sampler for the device on which the structure's view lies.
Sampler at_the_view(const SamplerChoice& choice) {
  return sampling::make_sampler(choice.graph->view(), choice.options, choice.exchange, choice.num_buffers,
                                *choice.pool);
}

Sampler on_cpu(const SamplerChoice& choice) {
  return sampling::make_uploading_sampler(choice.graph->host_lists(), choice.options, choice.exchange,
                                          choice.num_buffers, {.device = choice.device, .pool = choice.pool});
}

/// Whether a GPU reads every neighbor over PCIe.
bool lists_are_far(const store::GraphView& view) {
  return view.indices.size > 0 && !view.copies.indices.any() && !cuda::is_device_memory(view.indices.data);
}

/// Seconds per batch, after one batch that allocates. Both samplers get the same batches.
double seconds_of(sampling::MiniBatchSampler& sampler, const SamplerChoice& choice) {
  constexpr Count kBatches = 4;
  using Clock = std::chrono::steady_clock;
  const cuda::Stream stream(choice.device);
  Clock::time_point start;
  for (Count i = 0; i <= kBatches; ++i) {
    const Count step = i % std::max<Count>(1, choice.schedule->steps_per_epoch());
    const BatchKey key{.seed = choice.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)};
    sampler.sample(choice.schedule->step(0, step).seeds, key, 0, stream);
    stream.synchronize();
    if (i == 0) start = Clock::now();
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / kBatches;
}

void report(const SamplerChoice& choice, const std::string& what) {
  if (choice.log) spdlog::info("{}", what);
}

Sampler faster_one(const SamplerChoice& choice) {
  Sampler gpu = at_the_view(choice), cpu = on_cpu(choice);
  const double gpu_seconds = seconds_of(*gpu, choice), cpu_seconds = seconds_of(*cpu, choice);
  const bool gpu_is_faster = gpu_seconds <= cpu_seconds;
  report(
      choice,
      fmt::format("the {} samples: all neighbor lists lie in host memory, from where a batch takes the GPU "
                  "{} and the CPU {}",
                  gpu_is_faster ? "GPU" : "CPU", format_seconds(gpu_seconds), format_seconds(cpu_seconds)));
  return gpu_is_faster ? std::move(gpu) : std::move(cpu);
}

}  // namespace

bool samples_on_gpu(const SamplerChoice& choice) {
  if (!choice.device.is_cuda() || choice.requested == Compute::cpu) return false;
  return choice.requested == Compute::cuda || choice.exchange.communicator != nullptr ||
         !lists_are_far(choice.graph->view());
}

std::unique_ptr<sampling::MiniBatchSampler> make_training_sampler(const SamplerChoice& choice) {
  if (!choice.device.is_cuda()) {
    if (choice.requested == Compute::cuda) {
      throw InputError("--sampler-device cuda: this run computes on the cpu",
                       "Leave it out, or run with --device cuda on a host with a GPU.");
    }
    return at_the_view(choice);
  }
  if (choice.requested == Compute::cpu) {
    report(choice, "the CPU samples, as asked for");
    return on_cpu(choice);
  }
  if (!samples_on_gpu(choice)) return faster_one(choice);
  report(choice,
         fmt::format("the GPU samples{}", choice.requested == Compute::cuda ? ", as asked for"
                                          : choice.exchange.communicator != nullptr
                                              ? ": neighbors of other machines are asked for meanwhile"
                                              : ": neighbor lists lie in GPU memory, all or some"));
  return at_the_view(choice);
}

}  // namespace strata::batches
