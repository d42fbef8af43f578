// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/nn/kinds.hpp"
#include "strata/util/types.hpp"

namespace strata::nn {

/// The change of the learning rate between updates.
///
/// It grows linearly over the first `warmup_steps` updates, from rate / warmup_steps to rate. After that,
/// with t updates since, it is `rate` for constant; rate (1 + cos(pi t / (total_steps - warmup_steps))) / 2
/// for cosine, so 0 at the end; and rate gamma^floor(t / step_size) for step.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  Count warmup_steps = 0;
  Count total_steps = 0;  ///< of the run; cosine only
  Count step_size = 1;    ///< step only
  double gamma = 0.1;     ///< step only
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;
  double learning_rate = 0.003;
  double weight_decay = 0;
  ScheduleOptions schedule = {};
  double clip_norm = 0;          ///< the gradient is scaled down to this Euclidean norm; 0: never
  bool skip_not_finite = false;  ///< skip an update whose gradient or guard has NaN or infinity
  /// Compute updates on the host, wherever the values lie. GPUs and CPUs round differently; with this option
  /// ranks with and without a GPU keep the same values bit for bit.
  bool on_host = false;
};

/// The learning rate of an update after `steps` others.
double learning_rate_after(Count steps, double rate, const ScheduleOptions& schedule);

/// An optimizer that updates one flat parameter tensor in one pass. Every element is updated independently,
/// so the result equals that of the same optimizer over many tensors.
///
/// Adam and AdamW have betas 0.9, 0.999 and epsilon 1e-8, as in torch.optim; clipping is that of
/// torch.nn.utils.clip_grad_norm_. Everything that changes between updates lies on the device, so that a
/// recorded update can be replayed. The host reads no value, unless it computes the updates. The bits are the
/// same for any number of threads.
class Optimizer {
 public:
  /// `values` gives the size of the state, and its device unless updates are on the host. `guard` [1] f32 on
  /// that device, if defined, is read at every update; see skip_not_finite.
  Optimizer(const OptimizerOptions& options, const at::Tensor& values, at::Tensor guard = {});
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Makes one update in place, with the gradient of the mean loss, on libtorch's current stream.
  void step(const at::Tensor& values, const at::Tensor& gradients);

  struct StateTensor {
    std::string name;
    at::Tensor tensor;
  };
  /// The tensors that a checkpoint must hold, by reference: a resume copies into them.
  std::vector<StateTensor> state() const;

  struct Counters {
    Count steps = 0;    ///< updates made
    Count skipped = 0;  ///< updates skipped
  };
  Counters counters() const;  ///< waits for the device

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const at::Tensor& values,
                                          at::Tensor guard = {});

}  // namespace strata::nn
