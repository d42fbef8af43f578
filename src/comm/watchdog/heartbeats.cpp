// SPDX-License-Identifier: Apache-2.0
#include "watchdog/heartbeats.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace strata::comm {
namespace {

constexpr int kTag = 2;
static_assert(std::is_trivially_copyable_v<Heartbeat>);

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
  outgoing_.resize(peers_.size());
}

void Heartbeats::tick(const Heartbeat& own) {
  const MpiState& state = Internals::of(communicator_);
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    int sent = 0;
    check(MPI_Test(&outgoing_[p].request, &sent, MPI_STATUS_IGNORE), "MPI_Test", state);
    // else the previous one is still on its way, and a queue of heartbeats is useless
    if (sent) send(p, own);
    ++peers_[p].silent_ticks;
  }
  take_in();
}

void Heartbeats::send(std::size_t peer, const Heartbeat& heartbeat) {
  const MpiState& state = Internals::of(communicator_);
  Outgoing& outgoing = outgoing_[peer];
  outgoing.heartbeat = heartbeat;
  check(MPI_Isend(&outgoing.heartbeat, sizeof(Heartbeat), MPI_BYTE, peers_[peer].rank, kTag, state.handle,
                  &outgoing.request),
        "MPI_Isend", state);
}

void Heartbeats::take_in() {
  const MpiState& state = Internals::of(communicator_);
  for (;;) {
    int waiting = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kTag, state.handle, &waiting, &status), "MPI_Iprobe", state);
    if (!waiting) return;
    receive_from(status.MPI_SOURCE);
  }
}

void Heartbeats::receive_from(int rank) {
  const MpiState& state = Internals::of(communicator_);
  Peer& peer = peer_of(rank);
  check(MPI_Recv(&peer.last, sizeof(Heartbeat), MPI_BYTE, rank, kTag, state.handle, MPI_STATUS_IGNORE),
        "MPI_Recv", state);
  peer.silent_ticks = 0;
  peer.left = peer.last.leaving != 0;
}

Peer& Heartbeats::peer_of(int rank) {
  return peers_[communicator_.rank() == 0 ? static_cast<std::size_t>(rank - 1) : 0];
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
  const MpiState& state = Internals::of(communicator_);
  Heartbeat farewell = make_heartbeat(0, "leaving", false);
  farewell.leaving = 1;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    check(MPI_Wait(&outgoing_[p].request, MPI_STATUS_IGNORE), "MPI_Wait", state);
    send(p, farewell);
  }
  for (Peer& peer : peers_) {
    while (!peer.left) receive_from(peer.rank);
  }
  for (Outgoing& outgoing : outgoing_)
    check(MPI_Wait(&outgoing.request, MPI_STATUS_IGNORE), "MPI_Wait", state);
  communicator_.close();
}

}  // namespace strata::comm
