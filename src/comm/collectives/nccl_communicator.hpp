// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nccl.h>

#include <functional>
#include <source_location>
#include <string>

#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// A non-blocking NCCL communicator over the ranks of a Communicator. An owner. Its calls start work and are
/// polled until the work is under way, so that a failing rank causes an error here, not a call that never
/// returns.
class NcclCommunicator {
 public:
  /// A member of a communicator whose id all members were given.
  struct Member {
    ncclUniqueId id{};
    int rank = 0, size = 1;
    std::string who;                              ///< this rank, for messages
    int most_blocks = NCCL_CONFIG_UNDEF_INT;      ///< that its kernels occupy
    std::function<void()> while_waiting = [] {};  ///< called repeatedly; if it throws, waiting ends
  };
  /// REQUIRES: every member has a GPU of its own. Collective over the members.
  NcclCommunicator(const Member& member, Device device);
  /// Makes one over the ranks of `world`. Its kernels occupy at most `most_blocks`; 0: as many as NCCL likes.
  NcclCommunicator(const Communicator& world, Device device, int most_blocks);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() { abort(); }

  ncclComm_t get() const { return handle_; }

  /// Waits until a call that returned `code` is done with its work on the host; throws CommError if it
  /// failed.
  void finish(ncclResult_t code, const char* call,
              std::source_location where = std::source_location::current()) const;
  /// Waits until the GPU is done, as `is_done` returns; throws CommError if the communicator failed
  /// meanwhile.
  void finish_when(const std::function<bool()>& is_done, const char* call,
                   std::source_location where = std::source_location::current()) const;
  /// Finishes all work and frees the communicator. Collective.
  void close();

 private:
  [[noreturn]] void fail(ncclResult_t code, const char* call, std::source_location where) const;
  void abort() noexcept;
  ncclResult_t state() const;

  ncclComm_t handle_ = nullptr;
  const std::string who_;
  const std::function<void()> while_waiting_;
};

}  // namespace strata::comm
