// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "strata/util/types.hpp"

namespace strata::comm {

/// Carries bytes one way, from a GPU of one process to a GPU of another, which need not share a machine, by
/// an NCCL communicator of only these two. Both ends make the same transfers in the same order. Two pipes,
/// not one, join GPUs both ways: NCCL runs what a communicator has to do one after the other, so that two
/// ends that both send first would wait for each other.
///
/// No two GPUs wait for each other for ever, whatever else they launch, training's collectives among it, if
/// both ends call transfer() only once the other end is about to, and few pipes of a process transfer at a
/// time:
/// - A transfer is a kernel at each end. It needs nothing but its counterpart, and some SMs: its stream
///   has no other work, and the host waits for its end, so that no stream ever waits for it.
/// - A kernel of a collective, or of another pipe, that waits for its peers leaves SMs over, because each has
///   few blocks: a transfer at most one per eight SMs, and no more than kMostBlocks. So both kernels of a
///   transfer run at last, whatever order the kernels of several communicators were launched in, and end;
///   LaunchOrder need not know of them.
/// - A call of CUDA that waits for all of a device waits for a transfer. Where such a call also held up the
///   counterpart's launch on the other rank, the watch (`while_waiting`) ends both.
///
/// The end of a pipe aborts what is under way. Not thread safe.
class DevicePipe {
 public:
  static constexpr int kMostBlocks = 16;  ///< of a GPU, that a transfer occupies

  enum class End : std::uint8_t { sends, receives };
  struct Setup {
    std::string id;  ///< of make_device_pipe_id(), the same on both ends
    End end = End::sends;
    Device device;
    std::string who;  ///< this rank, for messages
    /// Called repeatedly while a call waits; if it throws, the call ends with that.
    std::function<void()> while_waiting = [] {};
  };
  /// A part of a message; both ends give the same sizes.
  struct Part {
    void* data = nullptr;  ///< on this end's device, ready now; the sender's is only read
    std::size_t bytes = 0;
  };

  virtual ~DevicePipe() = default;
  /// Returns when this end is done with its parts. Throws CommError if the other end fails; the pipe is then
  /// of no more use.
  virtual void transfer(std::span<const Part> parts) = 0;
};

/// Throws CommError where there is no NCCL.
std::string make_device_pipe_id();
/// Waits for the other end to do the same. Throws CommError, as for two ends on the same GPU.
std::unique_ptr<DevicePipe> open_device_pipe(const DevicePipe::Setup& setup);

}  // namespace strata::comm
