// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "strata/comm/backend.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// Lets ranks that end find out whether all others end, too, so that the run can end in order.
class OrderlyEnd {
 public:
  explicit OrderlyEnd(const Communicator& world);  ///< collective

  /// Waits for at most `patience` until every rank has made this call. Returns the lowest rank that has a
  /// message of its own, else 0; nothing if some rank has not called. A rank calls it once.
  std::optional<int> meet(bool has_own_message, std::chrono::milliseconds patience) const;

 private:
  Communicator communicator_;  // not closed: closing is collective, and not all may be there
};

/// Lets a rank that waits for others find out that one of them has ended its program and will never come.
///
/// Each rank sends a notice to the next one, in a ring. So whichever ranks have ended, one that has not gets
/// a notice; if it is busy, it finds the notice when it waits. Thread safe.
class EndNotices {
 public:
  explicit EndNotices(const Communicator& world);  ///< collective

  void send();  ///< sends that this rank's program has ended; called once
  std::optional<int>
  received();  ///< returns the rank before this one once its program has ended, without waiting

 private:
  std::size_t place_of(int rank) const;  // among the peers of the mailbox

  Communicator communicator_;  // of the mailbox
  const int next_, previous_;
  std::optional<int> received_;
  std::mutex mutex_;
  std::unique_ptr<Backend::Mailbox> mailbox_;  // null for one rank
};

}  // namespace strata::comm
