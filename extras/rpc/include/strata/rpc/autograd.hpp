// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "strata/rpc/agent.hpp"

/// Gradients that cross ranks: a forward pass that calls other ranks, and its backward pass.
namespace strata::rpc {

class WorkFor;

/// The gradient of a parameter of this rank from a backward pass.
struct Gradient {
  at::Tensor parameter;  ///< the leaf itself
  at::Tensor gradient;   ///< the sum over the backward passes of the context
};

/// While it lives, no other lock of this rank has any of its parameters. Code that updates parameters, or
/// lets their at::Tensor::grad() stand for a context's gradients, makes one, because several ranks may have
/// optimizers over the same parameters.
class ParameterLock {
 public:
  ParameterLock(std::shared_ptr<Core> core, const std::vector<at::Tensor>& parameters);  ///< waits
  ~ParameterLock();
  ParameterLock(const ParameterLock&) = delete;
  ParameterLock& operator=(const ParameterLock&) = delete;

 private:
  const std::shared_ptr<Core> core_;
  const std::vector<at::Tensor> parameters_;
};

/// A forward pass and its backward passes, on all ranks that its calls reach.
///
/// While it lives, it is the context of the thread that made it: calls of that thread belong to it, and so do
/// the calls that those make on other ranks, and callbacks of futures (Future::then). Tensors that need
/// gradients are recorded on both ends where they cross ranks. One made inside another hides it. Contexts of
/// other threads and ranks are independent.
///
///     rpc::AutogradContext context(agent);
///     const at::Tensor y = other.sync(&Shard::forward, mine.forward(x));
///     context.backward({y.sum()});
///     for (const rpc::Gradient& each : context.gradients()) ...        // of this rank's parameters
///     other.sync(&Shard::learn, context.id());                        // which calls gradients(agent, id)
///
/// Made and used by one thread. All ranks are informed of its end, and forget the pass.
class AutogradContext {
 public:
  explicit AutogradContext(const Agent& agent);  ///< throws CommError after the end of the agent
  ~AutogradContext();
  AutogradContext(const AutogradContext&) = delete;
  AutogradContext& operator=(const AutogradContext&) = delete;

  ContextId id() const;  ///< for gradients() on other ranks

  /// Runs from the roots, which are tensors of one element on this rank, through all ranks that had a part in
  /// them, and waits until all gradients are there. They are added to the context's, and never to
  /// at::Tensor::grad(). Each rank runs its part as soon as the gradients of all that depends on it are
  /// there, so that every tensor that crosses ranks is sent back once. Every use of a tensor counts, along
  /// any pattern of calls; results that nobody uses cost nothing.
  ///
  /// Hooks of a leaf run as in the backward pass of one process: of the tensor, and of its accumulation, such
  /// as those by which DistributedDataParallel averages gradients over its replicas. While a rank's part with
  /// the latter runs, at::Tensor::grad() of their leaves is the context's gradient; what they make of it is
  /// the context's afterwards.
  ///
  /// Throws InputError if a root has more elements, or needs no gradient; RemoteError for what another rank
  /// threw, and CommError as calls do. After an error the gradients are incomplete.
  void backward(const std::vector<at::Tensor>& roots);

  std::vector<Gradient> gradients() const;  ///< of this rank's leaves, in no particular order

 private:
  const Agent& agent_;
  const std::shared_ptr<Core> core_;
  const ContextId id_;
  std::unique_ptr<WorkFor> working_;
};

/// Does AutogradContext::backward() from roots of this rank in a context that began on any rank, for example
/// from a call's result that has stayed here. Throws InputError also if the context has ended or was never
/// begun. Thread safe.
void backward(const Agent& agent, const ContextId& id, const std::vector<at::Tensor>& roots);

/// The gradients of this rank's leaves in a context that began on any rank; empty if this rank has had no
/// part in it. Throws InputError if the context has ended or was never begun, and CommError if the rank that
/// would know is gone. Thread safe.
std::vector<Gradient> gradients(const Agent& agent, const ContextId& id);

/// The context that this thread works for: on other ranks, that of the call. A creator of -1: none.
ContextId current_context(const Agent& agent);

}  // namespace strata::rpc
