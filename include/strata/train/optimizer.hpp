#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::train {

/// An optimizer over one flat parameter tensor; every element is updated alone, so it equals the same
/// optimizer over many.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One step with the gradient of the mean loss. Changes `values` in place, and may change `gradients`.
  virtual void step(at::Tensor values, at::Tensor gradients) = 0;

  struct NamedTensor {
    std::string name;
    at::Tensor tensor;
  };
  /// What a checkpoint must hold: tensors by reference (a resume copies into them) and the number of steps
  /// made.
  virtual std::vector<NamedTensor> state() = 0;
  Count steps = 0;
};

struct OptimizerOptions {
  std::string kind = "adam";  ///< adam (decay added to the gradient), adamw (decoupled decay), sgd
  double learning_rate = 0.003;
  double weight_decay = 0;
};

/// Adam and AdamW with betas 0.9, 0.999 and epsilon 1e-8, as torch.optim. `values` gives shape and device of
/// the state. Throws InputError with the list of kinds.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const at::Tensor& values);

}  // namespace strata::train
