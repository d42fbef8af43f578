// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "channels/channels.hpp"

namespace strata::rpc {

/// A part of a tensor that lies in one of its sender's slots.
struct Piece {
  std::uint64_t transfer = 0;  ///< Head::transfer of the tensor's message
  std::uint32_t tensor = 0;    ///< its place in the message
  std::uint32_t slot = 0;
  std::uint64_t offset = 0, bytes = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(transfer, tensor, slot, offset, bytes);
  }
};

/// Sends tensors that have no room of their own, a few pieces at a time: while a receiver copies one out of
/// its slot, the next is copied into another. Used on the thread of the links only.
class PieceSender {
 public:
  struct Transfer {
    std::uint64_t number = 0;
    std::map<std::uint32_t, at::Tensor> tensors =
        {};                      ///< contiguous, in host memory, by place in the message
    std::uint32_t num_seen = 0;  ///< of the message's tensors
    std::uint64_t offset = 0;    ///< in the first of them: what was sent already
  };
  using Tell = std::function<void(int peer, const Piece&)>;

  /// `tell` tells a peer that a piece lies in its slot.
  PieceSender(Channels& channels, Tell tell) : channels_(channels), tell_(std::move(tell)) {}
  void send(int peer, Transfer transfer);
  void emptied(int peer, std::uint32_t slot);  ///< the peer has copied its piece
  void forget(int peer) { peers_.erase(peer); }

 private:
  struct Peer {
    std::deque<Transfer> waiting;
    std::vector<std::uint32_t> free_slots;
  };
  Peer& at(int peer);
  void fill(int peer);

  Channels& channels_;
  const Tell tell_;
  std::map<int, Peer> peers_;
};

}  // namespace strata::rpc
