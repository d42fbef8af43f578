// SPDX-License-Identifier: Apache-2.0
#include "watchdog/heartbeats.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "polling.hpp"

namespace strata::comm {
namespace {

static_assert(std::is_trivially_copyable_v<Heartbeat>);

std::vector<int> ranks_of(const std::vector<Peer>& peers) {
  std::vector<int> ranks;
  for (const Peer& peer : peers) ranks.push_back(peer.rank);
  return ranks;
}

/// Polls for a moment, which messages need.
template <typename Done>
void poll(Done&& done) {
  poll_until(std::chrono::steady_clock::time_point::max(), std::forward<Done>(done));
}

}  // namespace

Heartbeat make_heartbeat(std::int64_t idle_ticks, const char* what, bool busy) {
  Heartbeat heartbeat;
  heartbeat.idle_ticks = idle_ticks;
  heartbeat.busy = busy ? 1 : 0;
  std::strncpy(heartbeat.what, what, sizeof(heartbeat.what) - 1);
  return heartbeat;
}

Heartbeats::Heartbeats(Communicator communicator) : communicator_(std::move(communicator)) {
  const int last = communicator_.rank() == 0 ? communicator_.size() - 1 : 0;
  for (int rank = communicator_.rank() == 0 ? 1 : 0; rank <= last; ++rank) {
    Peer peer;
    peer.rank = rank;
    peers_.push_back(peer);
  }
  mailbox_ = Internals::of(communicator_).backend->mailbox(ranks_of(peers_), sizeof(Heartbeat));
}

void Heartbeats::tick(const Heartbeat& own) {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    // Nothing is sent while the previous one is on its way, because a queue of heartbeats is useless.
    mailbox_->post(p, std::as_bytes(std::span(&own, 1)));
    ++peers_[p].silent_ticks;
  }
  take_in();
}

void Heartbeats::take_in() {
  Heartbeat heartbeat;
  while (const auto p = mailbox_->take(std::as_writable_bytes(std::span(&heartbeat, 1)))) {
    peers_[*p].last = heartbeat;
    peers_[*p].silent_ticks = 0;
    peers_[*p].left = heartbeat.leaving != 0;
  }
}

std::vector<Progress> Heartbeats::stuck(const Heartbeat& own, std::int64_t patience_ticks) const {
  std::vector<Progress> found;
  const auto consider = [&](int rank, const Heartbeat& heartbeat) {
    if (heartbeat.leaving == 0 && heartbeat.idle_ticks >= patience_ticks) {
      found.push_back({.rank = rank, .idle_ticks = heartbeat.idle_ticks, .what = heartbeat.what});
    }
  };
  consider(communicator_.rank(), own);
  for (const Peer& peer : peers_) consider(peer.rank, peer.last);
  std::stable_sort(found.begin(), found.end(),
                   [](const Progress& a, const Progress& b) { return a.idle_ticks > b.idle_ticks; });
  return found;
}

bool Heartbeats::any_busy(const Heartbeat& own) const {
  return own.busy != 0 || std::any_of(peers_.begin(), peers_.end(),
                                      [](const Peer& peer) { return peer.last.busy != 0 && !peer.left; });
}

void Heartbeats::close() {
  Heartbeat last = make_heartbeat(0, "leaving", false);
  last.leaving = 1;
  for (std::size_t p = 0; p < peers_.size(); ++p)
    poll([&] { return mailbox_->post(p, std::as_bytes(std::span(&last, 1))); });
  poll([&] {
    take_in();
    return std::ranges::all_of(peers_, &Peer::left);
  });
  for (std::size_t p = 0; p < peers_.size(); ++p) poll([&] { return mailbox_->has_left(p); });
  mailbox_.reset();
  communicator_.close();
}

}  // namespace strata::comm
