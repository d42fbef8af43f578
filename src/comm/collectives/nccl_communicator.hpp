// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nccl.h>

#include <source_location>
#include <string>

#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// A non-blocking NCCL communicator over the ranks of a Communicator. An owner. Its calls start work and are
/// polled until the work is under way, so that a failing rank causes an error here, not a call that never
/// returns.
class NcclCommunicator {
 public:
  /// REQUIRES: every rank of `world` has a GPU of its own. Collective.
  NcclCommunicator(const Communicator& world, Device device);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() { abort(); }

  ncclComm_t get() const { return handle_; }

  /// Waits until a call that returned `code` is done with its work on the host; throws CommError if it
  /// failed.
  void finish(ncclResult_t code, const char* call,
              std::source_location where = std::source_location::current()) const;
  /// Finishes all work and frees the communicator. Collective.
  void close();

 private:
  [[noreturn]] void fail(ncclResult_t code, const char* call, std::source_location where) const;
  void abort() noexcept;

  ncclComm_t handle_ = nullptr;
  std::string who_;
};

}  // namespace strata::comm
