// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "strata/comm/backend.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// Lets ranks that failed find out whether all others failed, too, so that the run can end in order.
class Farewell {
 public:
  explicit Farewell(const Communicator& world);  ///< collective

  /// Waits for at most `patience` until every rank has come here. Returns the lowest of the ranks that have
  /// something of their own to say, else 0; nothing if some rank has not come. A rank comes once.
  std::optional<int> meet(bool has_own_news, std::chrono::milliseconds patience) const;

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

  void send();                    ///< that this rank's program has ended; called once
  std::optional<int> received();  ///< the rank before this one, once its program has ended; does not wait

 private:
  std::size_t place_of(int rank) const;  // among the peers of the mailbox

  Communicator communicator_;  // of the mailbox
  const int next_, previous_;
  std::optional<int> received_;
  std::mutex mutex_;
  std::unique_ptr<Backend::Mailbox> mailbox_;  // null for one rank
};

}  // namespace strata::comm
