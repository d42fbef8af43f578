// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "strata/rpc/agent.hpp"

/// Modules on several ranks that work at the same time, on different pieces of a batch.
namespace strata::rpc {

/// The output of a module for a micro-batch. On a GPU, fetching it waits only for this micro-batch, and
/// not for those behind it, which its stream has to compute by then.
class StageOutput {
 public:
  StageOutput() = default;
  explicit StageOutput(at::Tensor values);  ///< of the current stream
  const at::Tensor& values() const { return values_; }

  template <typename Archive>
  void save(Archive& archive) const {
    archive(add_to(owner_of<Packing>(archive)));
  }
  template <typename Archive>
  void load(Archive& archive) {
    archive(values_);
  }

 private:
  std::int32_t add_to(Packing& packing) const;

  at::Tensor values_;
  std::shared_ptr<const c10::Event> made_;  // null: on a CPU, or fetched
};

/// The part of one pipeline() at one of its modules, on the module's rank: a thread that computes
/// micro-batches in their order.
class StageRun {
 public:
  explicit StageRun(std::function<at::Tensor(const at::Tensor&)> forward);

  /// Waits until the micro-batches before this one are done. Calls may come in any order.
  StageOutput forward(std::int64_t micro_batch, const at::Tensor& x) const;
  /// The same for an output of the stage before, which is fetched from its rank.
  StageOutput forward_from(std::int64_t micro_batch, const Ref<StageOutput>& x) const;
  /// Fails those that wait, if another one did.
  void cancel() const;

 private:
  class Turn;
  struct State;
  std::shared_ptr<State> state_;
};

/// A module as a part of pipelines; RemoteModule::stage().
using Stage = std::function<Ref<StageRun>()>;

struct PipelineOptions {
  std::int64_t micro_batches = 4;  ///< pieces of the batch, of sizes that differ by one row at most
};

/// Computes last(... second(first(x))), with the rows of x in pieces, so that modules on different ranks work
/// at the same time. With three micro-batches:
///
///     first     0 1 2
///     second      0 1 2        what the first one makes of piece 0 goes from its rank to the second one's,
///     last          0 1 2      by the device map that the second one's rank has for the first one's
///
/// Each module computes its micro-batches one after the other, in their order, and backward passes add up its
/// parameters' gradients from the last to the first: each run has the same bits, and those of one process
/// that computes the same pieces. They are the gradients of the whole batch (up to rounding) if each row is
/// computed by itself, as it is without batch norm.
///
/// A module must not overwrite its outputs later, for example by keeping all of them in the same memory.
///
/// x [rows, ...]; returns [rows, ...], here. Calls belong to the thread's AutogradContext, as all calls do.
/// Throws InputError for no stage, or for micro-batches without rows, and what the calls throw.
at::Tensor pipeline(const std::vector<Stage>& stages, const at::Tensor& x, const PipelineOptions& options);

}  // namespace strata::rpc
