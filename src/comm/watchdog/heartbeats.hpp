// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "state.hpp"

namespace strata::comm {

/// What a rank reports about itself in each period.
struct Heartbeat {
  std::int64_t idle_ticks = 0;  ///< periods since it last made progress
  std::int32_t leaving = 0;     ///< 1: this is its last heartbeat, because it leaves as planned
  std::int32_t busy = 0;        ///< 1: its current work may take any time
  char what[56] = {};           ///< what it did last, cut to fit
};

Heartbeat make_heartbeat(std::int64_t idle_ticks, const char* what, bool busy);

/// A rank that this one listens to: all others for rank 0, rank 0 for the others.
struct Peer {
  int rank = 0;
  std::int64_t silent_ticks = 0;  ///< own periods since the last heartbeat from it
  bool left = false;
  Heartbeat last = make_heartbeat(0, "start", true);
};

struct Progress {
  int rank;
  std::int64_t idle_ticks;
  std::string what;
};

/// Heartbeats between rank 0 and every other rank. Only close() waits for other ranks. For one thread at a
/// time.
class Heartbeats {
 public:
  explicit Heartbeats(Communicator communicator);

  /// Sends `own` to all peers and receives what they sent since the last tick.
  void tick(const Heartbeat& own);
  const std::vector<Peer>& peers() const { return peers_; }
  /// Ranks without progress for at least `patience_ticks`, the longest first. Call it on rank 0.
  std::vector<Progress> stuck(const Heartbeat& own, std::int64_t patience_ticks) const;
  bool any_busy(const Heartbeat& own) const;
  /// Sends the peers that this rank leaves, and receives heartbeats until all of them have, too. Collective.
  void close();

 private:
  void take_in();

  Communicator communicator_;
  std::vector<Peer> peers_;
  std::unique_ptr<Backend::Mailbox> mailbox_;  // to and from the peers
};

}  // namespace strata::comm
