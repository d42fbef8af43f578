// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "channels/channels.hpp"

namespace strata::rpc {

/// Sends tensors that have no room of their own, a few pieces at a time: while a receiver copies one out of
/// its slot, the next is copied into another. Used on the thread of the links only.
class PieceSender {
 public:
  /// A path of pieces: to a rank through host memory, or between two GPUs.
  struct Path {
    int peer = 0;
    std::int64_t gpu_route = Piece::kOnHost;
    auto operator<=>(const Path&) const = default;
  };
  struct Part {
    at::Tensor values;                          ///< contiguous
    std::shared_ptr<const cuda::Event> made{};  ///< of values on a GPU: when they are there
  };
  /// Tensors of a message that take the same path.
  struct Transfer {
    std::uint64_t number = 0;
    std::map<std::uint32_t, Part> parts = {};  ///< by place in the message
    std::uint64_t offset = 0;                  ///< in the first of them: what was sent already
  };
  using Announce = std::function<void(int peer, const Piece&)>;

  /// `announce` informs a peer that a piece lies in its slot.
  PieceSender(Channels& channels, Announce announce) : channels_(channels), announce_(std::move(announce)) {}
  void send(const Path& path, Transfer transfer);
  void emptied(int peer, const Piece& piece);  ///< the peer has copied it, or will before its next wait
  void forget(int peer) {
    std::erase_if(paths_, [&](const auto& path) { return path.first.peer == peer; });
  }

 private:
  struct Sending {
    std::deque<Transfer> waiting;
    std::vector<std::uint32_t> free_slots;
  };
  Sending& at(const Path& path);
  void fill(const Path& path);

  Channels& channels_;
  const Announce announce_;
  std::map<Path, Sending> paths_;
};

}  // namespace strata::rpc
