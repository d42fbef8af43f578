// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/train/choices.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// How the learning rate changes from update to update.
///
/// It grows linearly over the first `warmup_steps` updates, from rate / warmup_steps to rate. From there on,
/// with t updates since: constant; cosine: rate (1 + cos(pi t / (total_steps - warmup_steps))) / 2, so 0 at
/// the end; step: rate gamma^(t / step_size), rounded down.
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
  bool skip_not_finite = false;  ///< leave out an update whose gradient or guard holds NaN or infinity
  /// Compute updates on the host wherever the values lie, so that ranks with and without a GPU, which round
  /// differently, keep the same values bit for bit.
  bool on_host = false;
};

/// An optimizer over one flat parameter tensor in one pass; every element is updated alone, so it equals the
/// same optimizer over many tensors.
///
/// Adam and AdamW have betas 0.9, 0.999 and epsilon 1e-8, as torch.optim; clipping is that of
/// torch.nn.utils.clip_grad_norm_. All that changes between updates lies on the device, so that a captured
/// update replays; no value is read by the host, unless that is where updates are computed. The same bits on
/// any number of threads.
class Optimizer {
 public:
  /// `values` gives size and device of the state, unless that is kept on the host. `guard` [1] f32 on that
  /// device, if defined, is read at every update: see skip_not_finite.
  Optimizer(const OptimizerOptions& options, const at::Tensor& values, at::Tensor guard = {});
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with the gradient of the mean loss, in place; on libtorch's current stream.
  void step(const at::Tensor& values, const at::Tensor& gradients);

  struct StateTensor {
    std::string name;
    at::Tensor tensor;
  };
  /// What a checkpoint must hold, by reference: a resume copies into it.
  std::vector<StateTensor> state() const;

  struct Counters {
    Count steps = 0;    ///< updates made
    Count skipped = 0;  ///< updates left out
  };
  Counters counters() const;  ///< waits for the device

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const at::Tensor& values,
                                          at::Tensor guard = {});

}  // namespace strata::train
