// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "state.hpp"

namespace strata::comm {

/// Sends and receives of any size between pairs of ranks, all in flight at once. A transfer of 0 bytes makes
/// no message, and a rank that sends to itself copies.
///
/// The memory must stay valid until wait() has returned. Pieces between two ranks arrive in the order of the
/// calls, which must be the same on both sides.
class Transfers {
 public:
  explicit Transfers(const GroupState& state) : state_(state), messages_(state.backend->messages()) {}
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(const void* data, Count bytes, int peer);
  void receive(void* data, Count bytes, int peer);
  /// Returns when all transfers are done. Throws CommError if one failed or brought fewer bytes than
  /// expected.
  void wait();

 private:
  template <typename Byte>
  struct Own {
    Byte* data;
    Count bytes;
  };
  void copy_own();

  const GroupState& state_;
  std::unique_ptr<Backend::Messages> messages_;
  std::vector<Own<const void>> own_sends_;
  std::vector<Own<void>> own_receives_;
};

}  // namespace strata::comm
