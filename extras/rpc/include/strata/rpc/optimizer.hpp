// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/nn/optimizer.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/rpc/autograd.hpp"

/// Training of parameters that lie on several ranks.
namespace strata::rpc {

class OptimizerPart;

/// One optimizer over parameters of any ranks, which updates them where they lie: nn::Optimizer, once per
/// parameter.
///
///     const nn::OptimizerOptions options{.kind = nn::OptimizerKind::sgd, .learning_rate = 0.1};
///     rpc::DistributedOptimizer optimizer(agent, parameters, options);
///     for (...) {
///       rpc::AutogradContext context(agent);
///       context.backward({loss_of(batch)});
///       optimizer.step(context);                      // at once on all ranks that own parameters
///     }
///
/// The values are, bit for bit, those of one process with the same gradients on the same kind of device.
/// Moments and the number of updates lie beside the parameters. Used by one thread; ends before the agent's
/// graceful shutdown, because it holds handles.
class DistributedOptimizer {
 public:
  /// `parameters`, dense f32 leaves that require gradients: RemoteModule::parameters(), Agent::share(). Waits
  /// until all owners have made their part.
  ///
  /// Throws InputError for no parameters, for clipping and for skipping updates that are not finite, which
  /// would need the gradients of all ranks; RemoteError for what an owner refuses: another dtype or layout,
  /// or a parameter that occurs twice.
  DistributedOptimizer(Agent& agent, const std::vector<Ref<at::Tensor>>& parameters,
                       const nn::OptimizerOptions& options);

  /// Updates the parameters that have gradients in the context, and leaves the others and their moments as
  /// they are. Waits for all owners. A graph that was recorded before cannot be run backward again.
  ///
  /// Throws InputError if the context has ended or none has a gradient, and as calls do. After an error of
  /// one rank, parameters of others may be updated.
  void step(const AutogradContext& context) const { step(context.id()); }
  void step(const ContextId& context) const;

 private:
  std::vector<Ref<OptimizerPart>> parts_;  // one per owner
};

}  // namespace strata::rpc
