// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/optimizer.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#if STRATA_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

#include <optional>
#include <utility>

#include "optimizer/update.hpp"

namespace strata::nn {
namespace {

LearningRate rate_of(double base, const ScheduleOptions& schedule) {
  return {.kind = schedule.kind,
          .base = base,
          .gamma = schedule.gamma,
          .warmup_steps = schedule.warmup_steps,
          .total_steps = schedule.total_steps,
          .step_size = schedule.step_size};
}

template <typename T>
at::Tensor bytes_for(Count count, at::Device device) {
  return at::zeros({count * static_cast<Count>(sizeof(T))},
                   at::TensorOptions().dtype(at::kByte).device(device));
}

}  // namespace

double learning_rate_after(Count steps, double rate, const ScheduleOptions& schedule) {
  return rate_of(rate, schedule).at(steps);
}

/// The memory that updates on the host read and write, instead of the tensors on the device.
struct HostCopies {
  at::Tensor values, gradients, guard;
};

struct Optimizer::State {
  Update update;
  std::optional<HostCopies> host;
  at::Tensor first, second, guard;
  at::Tensor counters;  ///< [2] i64: an UpdateCounters
  at::Tensor norm_pieces, scalars;

  State(const OptimizerOptions& options, const at::Tensor& values, at::Tensor watched)
      : update{.kind = options.kind,
               .rate = rate_of(options.learning_rate, options.schedule),
               .weight_decay = options.weight_decay,
               .clip_norm = options.clip_norm,
               .skip_not_finite = options.skip_not_finite,
               .count = values.numel()},
        guard(std::move(watched)) {
    static_assert(sizeof(UpdateCounters) == 2 * sizeof(std::int64_t));
    const at::TensorOptions place = options.on_host ? values.options().device(at::kCPU) : values.options();
    if (options.on_host) {
      host.emplace(at::empty({values.numel()}, place), at::empty({values.numel()}, place),
                   at::zeros({1}, place));
    }
    counters = at::zeros({2}, place.dtype(at::kLong));
    norm_pieces = at::zeros({kNormPieces}, place.dtype(at::kDouble));
    scalars = bytes_for<UpdateScalars>(1, place.device());
    if (update.kind != OptimizerKind::sgd) {
      first = at::zeros({values.numel()}, place);
      second = at::zeros({values.numel()}, place);
      update.first = first.mutable_data_ptr<float>();
      update.second = second.mutable_data_ptr<float>();
    }
    if (guard.defined()) update.guard = (host ? host->guard : guard).const_data_ptr<float>();
    update.counters = reinterpret_cast<UpdateCounters*>(counters.mutable_data_ptr<std::int64_t>());
    update.norm_pieces = norm_pieces.mutable_data_ptr<double>();
    update.scalars = reinterpret_cast<UpdateScalars*>(scalars.mutable_data_ptr<std::uint8_t>());
  }
};

Optimizer::Optimizer(const OptimizerOptions& options, const at::Tensor& values, at::Tensor guard)
    : state_(std::make_unique<State>(options, values, std::move(guard))) {}
Optimizer::~Optimizer() = default;

namespace {

void update_on_host(Update update, const at::Tensor& guard, const HostCopies& host, const at::Tensor& values,
                    const at::Tensor& gradients) {
  const c10::NoGradGuard no_grad;
  host.values.copy_(values);
  host.gradients.copy_(gradients);
  if (guard.defined()) host.guard.copy_(guard);
  update.values = host.values.mutable_data_ptr<float>();
  update.gradients = host.gradients.const_data_ptr<float>();
  update_cpu(update);
  values.copy_(host.values);
}

}  // namespace

void Optimizer::step(const at::Tensor& values, const at::Tensor& gradients) {
  Update update = state_->update;
  if (state_->host) return update_on_host(update, state_->guard, *state_->host, values, gradients);
  update.values = values.mutable_data_ptr<float>();
  update.gradients = gradients.const_data_ptr<float>();
#if STRATA_WITH_CUDA
  if (values.is_cuda())
    return update_cuda(update, c10::cuda::getCurrentCUDAStream(values.get_device()).stream());
#endif
  update_cpu(update);
}

std::vector<Optimizer::StateTensor> Optimizer::state() const {
  std::vector<StateTensor> tensors{{"counters", state_->counters}};
  if (state_->first.defined()) {
    tensors.push_back({"first_moment", state_->first});
    tensors.push_back({"second_moment", state_->second});
  }
  return tensors;
}

Optimizer::Counters Optimizer::counters() const {
  const at::Tensor counters = state_->counters.cpu();
  return {.steps = counters.const_data_ptr<std::int64_t>()[0],
          .skipped = counters.const_data_ptr<std::int64_t>()[1]};
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const at::Tensor& values,
                                          at::Tensor guard) {
  return std::make_unique<Optimizer>(options, values, std::move(guard));
}

}  // namespace strata::nn
