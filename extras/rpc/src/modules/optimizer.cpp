// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/optimizer.hpp"

#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <numeric>
#include <unordered_map>

#include "core.hpp"
#include "modules/module_calls.hpp"
#include "strata/util/error.hpp"

namespace cereal {

template <typename Archive>
void serialize(Archive& archive, strata::nn::ScheduleOptions& options) {
  archive(options.kind, options.warmup_steps, options.total_steps, options.step_size, options.gamma);
}
template <typename Archive>
void serialize(Archive& archive, strata::nn::OptimizerOptions& options) {
  archive(options.kind, options.learning_rate, options.weight_decay, options.schedule, options.clip_norm,
          options.skip_not_finite, options.on_host);
}

}  // namespace cereal

namespace strata::rpc {
namespace {

void check(const at::Tensor& parameter) {
  if (parameter.scalar_type() != at::kFloat || !parameter.is_contiguous() || !parameter.is_leaf() ||
      !parameter.requires_grad())
    throw InputError(
        fmt::format("a parameter of an optimizer is {} [{}]{}{}{}", c10::toString(parameter.scalar_type()),
                    fmt::join(parameter.sizes(), ", "), parameter.is_contiguous() ? "" : ", not contiguous",
                    parameter.is_leaf() ? "" : ", computed from others",
                    parameter.requires_grad() ? "" : ", without requires_grad"),
        "Give dense f32 tensors that require gradients, such as those of a module.");
}

}  // namespace

/// The parameters of an optimizer that lie on this rank, with their moments.
class OptimizerPart {
 public:
  OptimizerPart(const nn::OptimizerOptions& options, const std::vector<Ref<at::Tensor>>& parameters) {
    for (const Ref<at::Tensor>& handle : parameters) {
      const at::Tensor& parameter = *handle.local();
      check(parameter);
      const bool is_new =
          parts_.emplace(parameter.unsafeGetTensorImpl(), Part{parameter, optimizer_for(options, parameter)})
              .second;
      if (!is_new) throw InputError("a parameter is given twice to one optimizer");
    }
  }

  std::int64_t num_parameters() const { return std::ssize(parts_); }

  /// Returns how many parameters were updated.
  std::int64_t step(const ContextId& context) {
    const std::shared_ptr<ContextState> state = open_context(*working_core(), context);
    if (!state) return 0;
    std::vector<at::Tensor> parameters;
    for (const auto& [impl, part] : parts_) parameters.push_back(part.parameter);
    const ParameterLock lock(working_core()->shared_from_this(), parameters);
    std::int64_t updated = 0;
    for (const Gradient& each : state->gradients()) {
      const auto part = parts_.find(each.parameter.unsafeGetTensorImpl());
      if (part == parts_.end()) continue;
      part->second.step(each.gradient);
      ++updated;
    }
    return updated;
  }

 private:
  struct Part {
    at::Tensor parameter;
    std::unique_ptr<nn::Optimizer> optimizer;

    void step(const at::Tensor& gradient) const {
      const c10::DeviceGuard guard(parameter.device());
      optimizer->step(parameter.detach().view(-1), gradient.contiguous().view(-1));
      torch::autograd::impl::bump_version(parameter);
    }
  };
  static std::unique_ptr<nn::Optimizer> optimizer_for(const nn::OptimizerOptions& options,
                                                      const at::Tensor& parameter) {
    return nn::make_optimizer(options, parameter.detach().view(-1));
  }

  std::unordered_map<const at::TensorImpl*, Part> parts_;
};

namespace {

/// Calls a method of all parts at once.
template <typename Method, typename... A>
std::int64_t sum_over(const std::vector<Ref<OptimizerPart>>& parts, Method method, const A&... arguments) {
  std::vector<Future<std::int64_t>> calls;
  for (const Ref<OptimizerPart>& part : parts) calls.push_back(part.async(method, arguments...));
  const std::vector<std::int64_t> counts = wait_for_all(std::move(calls));
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

void add_optimizer_calls(Registry& registry) {
  registry.constructor<OptimizerPart, nn::OptimizerOptions, std::vector<Ref<at::Tensor>>>(
      "strata::OptimizerPart");
  registry.method("strata::OptimizerPart::num_parameters", &OptimizerPart::num_parameters);
  registry.method("strata::OptimizerPart::step", &OptimizerPart::step);
}

DistributedOptimizer::DistributedOptimizer(Agent& agent, const std::vector<Ref<at::Tensor>>& parameters,
                                           const nn::OptimizerOptions& options) {
  if (parameters.empty()) throw InputError("an optimizer without parameters");
  if (options.clip_norm > 0 || options.skip_not_finite)
    throw InputError("an optimizer across ranks neither clips gradients nor skips updates",
                     "Leave clip_norm and skip_not_finite out.");
  std::map<int, std::vector<Ref<at::Tensor>>> by_owner;
  for (const Ref<at::Tensor>& parameter : parameters) by_owner[parameter.owner()].push_back(parameter);
  for (const auto& [owner, owned] : by_owner)
    parts_.push_back(agent.remote<OptimizerPart>(fmt::format("rank:{}", owner), options, owned));
  sum_over(parts_, &OptimizerPart::num_parameters);  // waits, and throws what their making threw
}

void DistributedOptimizer::step(const ContextId& context) const {
  if (sum_over(parts_, &OptimizerPart::step, context) == 0)
    throw InputError("no parameter of the optimizer has a gradient in this context",
                     "Call AutogradContext::backward() before, with a loss that depends on the parameters.");
}

}  // namespace strata::rpc
