// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>

#include "strata/comm/reducer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

/// Gives the NCCL launches of a training run the same order on all ranks, both on the host and on the GPU.
/// Without it, the kernels of two communicators could deadlock: each waits on one GPU for a kernel that the
/// other one holds up on another GPU.
///
/// Step s of n has an exchange E(s), which one thread makes, and ends with a reduction R(s), which another
/// thread may make. Exchanges run `lookahead` steps ahead of reductions, and no further:
///
///     lookahead 1, n = 4     E0 E1 R0 E2 R1 E3 R2 R3
///
/// A thread that comes early waits. Kernels on the GPU follow each other in this order, too. Thread safe.
class LaunchOrder {
 public:
  explicit LaunchOrder(Device device) : last_(device) {}

  /// Begins a run of `steps` steps; the arguments are the same on all ranks. No thread may be in a launch.
  void begin(Count steps, Count lookahead);
  /// All launches of E(s) are made between these two calls. begin_exchange() blocks until it is its turn.
  void begin_exchange(const cuda::Stream& stream);
  void end_exchange(const cuda::Stream& stream);
  /// R(s) is launched between these two calls; a step may have none.
  void begin_reduction(const cuda::Stream& stream);
  void end_reduction(const cuda::Stream& stream);
  void end_step();  ///< ends step s after its reduction, if it has one
  /// Says that no reductions will follow, so that exchanges wait no more. A thread that fails calls it, too,
  /// so that the other one can end.
  void open();

 private:
  template <typename Ready>
  void wait_until(Ready&& ready, const cuda::Stream& stream);
  void launched(const cuda::Stream& stream);

  std::mutex mutex_;
  std::condition_variable changed_;
  Count num_steps_ = 0, lookahead_ = 0;
  Count exchanged_ = 0, ended_ = 0;  // steps
  bool open_ = true;
  cuda::Event last_;
};

/// Wraps `reducer` so that its launches take the places of reductions in `order`, which must outlive it.
std::unique_ptr<AllReducer> in_order(std::unique_ptr<AllReducer> reducer, LaunchOrder& order);

}  // namespace strata::comm
