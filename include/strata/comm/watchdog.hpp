// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "strata/comm/backend.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// A thread per rank that ends the run when a rank falls silent, so that nothing hangs. In every `period`
/// each rank sends a heartbeat to rank 0 and receives one from it. If a rank's process is stopped, its host
/// is gone, or its `alive()` was not called for `patience`, the rank is named on stderr (rank, host, what it
/// did last) and the run is aborted.
///
/// While any rank is in work of unknown length (`take_time`), the others may be waiting for it, so `patience`
/// is suspended for all ranks.
class Watchdog {
 public:
  struct Options {
    std::chrono::milliseconds period{1000};
    /// Longest time without progress; 0: only heartbeats are watched.
    std::chrono::milliseconds patience{300000};
    std::chrono::milliseconds silence{7000};  ///< longest time without a heartbeat
    /// Longest time without a heartbeat of a rank after take_time(), because pinning much memory holds up all
    /// of its threads.
    std::chrono::milliseconds busy_silence{30000};
    /// Whether the run was asked to stop. If ranks fall silent in such a run, it ends with
    /// ExitCode::stopped_unsaved.
    std::function<bool()> stop_requested = [] { return false; };
    /// What the user may do next; printed below the message.
    std::string advice = {};
    /// Called in place of printing the message, on the thread that watches, with the ranks that it names;
    /// returns the exit code.
    std::function<int(const std::string& message, const std::vector<int>& ranks)> last_words = {};
  };
  Watchdog(const World& world, const Options& options);  ///< collective
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Reports progress. `what` must be a literal; it is named if nothing follows. Thread safe; costs one
  /// store.
  void alive(const char* what) noexcept;
  /// Reports that `what` (a literal) begins and may take any time, such as reading a large graph or writing
  /// to a slow disk. Until the next alive() of this rank only missing heartbeats end the run. Thread safe.
  void take_time(const char* what) noexcept;
  void close();  ///< collective; call it before the World ends

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The ranks that could be reached, and those that could not.
struct Presence {
  bool complete = true;  ///< on every rank: rank 0 has received from all others, and this rank from rank 0
  /// Ranks without a word: on rank 0 those that it received nothing from, on others rank 0 if it has not
  /// answered.
  std::vector<int> missing = {};
  std::vector<std::string> words = {};  ///< on rank 0, by rank: what each has sent; empty for the missing
};

/// Exchanges a word of at most 255 bytes between rank 0 and each other rank, and waits for nobody longer than
/// `patience`, so that a network that carries no messages differs from a slow one. It needs no agreement
/// but these messages, so that even other versions of a program can introduce themselves. All ranks call it
/// before any other message of the run. Afterwards ranks that found the run incomplete can only end
/// it.
Presence check_presence(const World& world, const std::string& word, std::chrono::milliseconds patience);

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
