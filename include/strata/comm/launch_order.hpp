// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>

#include "strata/comm/reducer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

/// Gives the NCCL launches of a training run the same order on all ranks, on the host and on the GPU: else
/// two kernels of two communicators could each wait on one GPU for what the other holds up on another.
///
/// Step s of n has an exchange E(s), made by one thread, and at its end the place of a reduction R(s), made
/// by another. Exchanges run `lookahead` steps ahead of reductions, and no further:
///
///     lookahead 1, n = 4     E0 E1 R0 E2 R1 E3 R2 R3
///
/// So whoever is early waits. Kernels follow each other in this order too. Thread safe.
class LaunchOrder {
 public:
  explicit LaunchOrder(Device device) : last_(device) {}

  /// A run of `steps` steps begins; the same on all ranks. No thread may be in a launch.
  void begin(Count steps, Count lookahead);
  /// All that E(s) launches lies between these two calls. begin_ blocks until it is its turn.
  void begin_exchange(const cuda::Stream& stream);
  void end_exchange(const cuda::Stream& stream);
  /// R(s) is launched between these two; a step may have none.
  void begin_reduction(const cuda::Stream& stream);
  void end_reduction(const cuda::Stream& stream);
  void end_step();  ///< step s has made its reduction, if any
  /// No reductions will follow: exchanges wait for nothing any more. Also where a thread failed, so that the
  /// other ends.
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

/// `reducer`, its launches in the order's places for reductions. `order` must outlive it.
std::unique_ptr<AllReducer> in_order(std::unique_ptr<AllReducer> reducer, LaunchOrder& order);

}  // namespace strata::comm
