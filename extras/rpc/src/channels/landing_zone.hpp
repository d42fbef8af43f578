// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "channels/free_space.hpp"

namespace strata::rpc {

/// Rooms in memory that a sender shares with its receivers. The sender takes a room, writes into it and sends
/// a receiver its place; the receiver reads it in place and gives it back by a mark in front of it, from
/// any thread, even when the sender's agent has ended.
///
///     | returned | mark | room            | mark | room | free ...
///     0          64     128
///
/// Only the sender knows which parts are free, so that no process can leave another one with a broken list.
/// A view of the memory. Thread safe.
class LandingZone {
 public:
  static constexpr std::size_t kAlignment = 64;  ///< of the rooms, if the memory begins there

  /// Makes the sender's end. The memory is all zeros.
  explicit LandingZone(std::span<std::byte> memory);

  /// The offset of a room; nothing if there is no room now.
  std::optional<std::size_t> take(std::size_t bytes);

  /// Gives back what take() returned, once, in any process that has the memory mapped.
  static void give_back(std::span<std::byte> memory, std::size_t offset);

 private:
  void collect();

  const std::span<std::byte> memory_;
  std::mutex mutex_;  // guards all below
  FreeSpace free_;
  std::map<std::size_t, std::size_t> taken_;  // bytes by offset, marks included
  std::uint32_t collected_ = 0;               // of the returned
};

}  // namespace strata::rpc
