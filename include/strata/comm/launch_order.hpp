// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "strata/comm/reducer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

/// Gives the NCCL launches of a training run the same order on all ranks, both on the host and on the GPU.
///
/// Without it, ranks could deadlock. A kernel of NCCL ends only when its peers' kernels run, and it keeps SMs
/// until then. Of two kernels that one GPU starts in the order A, B and another one in the order B, A, each
/// may hold the SMs that the other one needs. In one order for all ranks, the first kernel that has not
/// ended is the same everywhere; nothing on any GPU has to wait for a later one, so it ends, and so do all
/// by induction.
///
/// Step s of n may exchange twice, in S(s) for its sample and in F(s) for the rows that it fetches, and ends
/// with a reduction R(s). Three threads may make these launches. Samples run two steps ahead of reductions
/// and fetches one, as buffers of a pipeline do, or not ahead at all:
///
///     ahead, n = 4     S0 S1 F0 S2 F1 R0 S3 F2 R1 F3 R2 R3
///     not ahead        S0 F0 R0 S1 F1 R1 S2 F2 R2 S3 F3 R3
///
/// A thread that comes early waits. Kernels on the GPU follow each other in this order, too. Thread safe.
class LaunchOrder {
 public:
  explicit LaunchOrder(Device device) : last_(device) {}

  enum class Exchange : std::uint8_t { sample, fetch };
  /// What the steps of a run launch; the same on all ranks.
  struct Run {
    Count steps = 0;
    bool ahead = true;
    bool samples = false, fetches = true;  ///< which exchanges each step has
  };
  /// No thread may be in a launch.
  void begin(const Run& run);
  /// All launches of an exchange are made between these two calls. The first blocks until it is its turn.
  void begin_exchange(Exchange exchange, const cuda::Stream& stream);
  void end_exchange(Exchange exchange, const cuda::Stream& stream);
  /// R(s) is launched between these two calls; a step may have none.
  void begin_reduction(const cuda::Stream& stream);
  void end_reduction(const cuda::Stream& stream);
  void end_step();  ///< ends step s after its reduction, if it has one
  /// Says that no reductions will follow, and exchanges only of the first `steps` steps, the same number on
  /// all ranks. These keep their order.
  void finish(Count steps);
  /// A thread that fails says so, and the others wait no more for anything.
  void open();

 private:
  static constexpr std::size_t index(Exchange exchange) { return static_cast<std::size_t>(exchange); }
  Count steps_ahead(Exchange exchange) const;
  bool launched_for(Exchange exchange, Count slot) const;
  bool is_turn(Exchange exchange) const;
  template <typename Ready>
  void wait_until(Ready&& ready, const cuda::Stream& stream);
  void launched(const cuda::Stream& stream);

  std::mutex mutex_;
  std::condition_variable changed_;
  Run run_;
  std::array<Count, 2> exchanged_{};  // steps whose exchanges were launched
  Count ended_ = 0;                   // steps
  bool open_ = true;
  cuda::Event last_;
};

/// Wraps `reducer` so that its launches take the places of reductions in `order`, which must outlive it.
std::unique_ptr<AllReducer> in_order(std::unique_ptr<AllReducer> reducer, LaunchOrder& order);

}  // namespace strata::comm
