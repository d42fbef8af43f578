// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "step/learned_rows.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/reducer.hpp"

namespace strata::train {

/// Gives every rank the gradients of learned rows of all ranks, in the order of ranks: from GPU to GPU where
/// every rank has one, else through host memory. An owner of its communicator.
class GradientExchange {
 public:
  /// Collective. `order` is that of the run's launches over NCCL, or null; it outlives the exchange.
  GradientExchange(const comm::Ranks& ranks, comm::LaunchOrder* order, int most_blocks);
  void close();  ///< collective

  /// Takes what the batches of an update have on this rank, and makes room for that of the others. Collective.
  void prepare(const LearnedRows& rows, const std::vector<RowGradients>& mine);
  /// Enqueues the messages on `stream`, which has reached what prepare() enqueued. Collective.
  void exchange(const cuda::Stream& stream);
  /// The gradients of all ranks, once exchange() has been reached.
  RowGradients take() { return std::exchange(all_, {}); }

 private:
  comm::Communicator communicator_;
  std::unique_ptr<comm::DeviceExchange> wire_;  // null with one rank
  comm::LaunchOrder* order_;
  at::Device device_;
  std::vector<Count> firsts_;  // [ranks + 1] where each rank's rows begin
  RowGradients all_;
};

}  // namespace strata::train
