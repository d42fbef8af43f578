// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <optional>

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

}  // namespace strata::comm
