// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

/// Sums a flat buffer over all ranks, in place: with NCCL if every rank has a GPU of its own, else with the
/// ranks' own messages through pinned memory. The order of the sum is fixed for a given number of ranks.
class AllReducer {
 public:
  virtual ~AllReducer() = default;
  /// data [count] f32 on the device of the reducer. Collective; asynchronous on `stream` with NCCL, else
  /// blocking.
  virtual void sum(float* data, Count count, const cuda::Stream& stream) = 0;
  virtual const char* name() const = 0;  ///< "nccl", or that of the backend: "mpi", "torch", "solo"
  virtual void close() = 0;              ///< collective
};

/// Collective over `world`, which is duplicated. `most_blocks` as in make_device_exchange().
std::unique_ptr<AllReducer> make_all_reducer(const Communicator& world, const Topology& topology,
                                             Device device, int most_blocks = 0);

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
/// More batches may be on their way. Where A are sampled and G gathered at the same time, samples run A + G
/// steps ahead and fetches G; thread k of A makes the samples of steps k, k + A, k + 2 A and so on, and
/// threads that fetch share theirs likewise:
///
///     A = 2, G = 1, n = 4     S0 S1 S2 F0 S3 F1 R0 F2 R1 F3 R2 R3
///
/// A thread that comes early waits. Kernels on the GPU follow each other in this order, too, unless the run
/// says that they may overlap. What hides the latency of a network is then that many exchanges wait for it at
/// once, each with a communicator of its own. Still no GPU waits for another for ever: whatever keeps a
/// kernel from starting was enqueued on its GPU before it, in hardware queues, too, or occupies SMs. Take
/// the first launch in the order that has not ended on all GPUs. Nothing before it is left, and launches
/// behind it occupy at most the blocks of blocks_that_fit() each, which leaves SMs for its own. So it runs on
/// all GPUs, and ends, and so do all by induction.
///
/// Thread safe.
class LaunchOrder {
 public:
  explicit LaunchOrder(Device device) : last_(device) {}

  enum class Exchange : std::uint8_t { sample, fetch };
  /// What the steps of a run launch; the same on all ranks.
  struct Run {
    Count steps = 0;
    bool ahead = true;
    bool samples = false, fetches = true;  ///< which exchanges each step has
    int sampled = 1, gathered = 1;         ///< batches at the same time; A and G above
    bool overlap = false;                  ///< launches need not follow each other on the GPU
  };
  /// An exchange, and which of the threads that share such exchanges makes it.
  struct Turn {
    Exchange exchange = Exchange::fetch;
    int lane = 0;
  };
  /// No thread may be in a launch.
  void begin(const Run& run);
  /// All launches of an exchange are made between these two calls. The first blocks until it is its turn.
  void begin_exchange(const Turn& turn, const cuda::Stream& stream);
  void end_exchange(const Turn& turn, const cuda::Stream& stream);
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
  static constexpr std::size_t index(Exchange exchange) { return at(exchange); }
  Count steps_ahead(Exchange exchange) const;
  bool launched_for(Exchange exchange, Count slot) const;
  bool is_turn(const Turn& turn) const;
  int lanes(Exchange exchange) const;
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

/// Most blocks for the launches of each communicator, so that those of `communicators` fit on the GPU at the
/// same time, and a DevicePipe besides. 14 for 8 communicators on a GPU of 132 SMs.
int blocks_that_fit(Device device, int communicators);

/// Wraps `reducer` so that its launches take the places of reductions in `order`, which must outlive it.
std::unique_ptr<AllReducer> in_order(std::unique_ptr<AllReducer> reducer, LaunchOrder& order);

}  // namespace strata::comm
