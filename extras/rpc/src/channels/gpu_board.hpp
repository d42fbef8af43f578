// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/cuda/ipc.hpp"

namespace strata::rpc {

/// A flag that one end of a route sets for the other, in host memory that both have mapped and that begins
/// as zeros.
class GpuMark {
 public:
  void set(bool value = true) { word().store(value ? 1 : 0, std::memory_order_release); }
  bool is_set() { return word().load(std::memory_order_acquire) != 0; }

 private:
  std::atomic_ref<std::uint32_t> word() { return std::atomic_ref(value_); }
  std::uint32_t value_;
};

/// The state of a room of GPU memory. Its sender records `filled` after its copy, and the receiver waits for
/// that; the receiver records `emptied` after the tensor's last use, and the sender's next copy waits for it.
struct GpuCard {
  using Handle = std::array<char, cuda::kIpcHandleBytes>;
  Handle filled, emptied;  ///< of the sender, of the receiver; valid once they were recorded
  GpuMark returned;        ///< by the receiver
  GpuMark was_read;        ///< then `emptied` was recorded
};

inline std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

struct GpuBoard {
  static constexpr std::uint32_t kRooms = 128;  ///< tensors at a time; drivers bound the number of events
  static constexpr std::uint32_t kSlots = 4;    ///< for pieces of larger ones
  std::array<GpuCard, kRooms + kSlots> cards;
  GpuMark sender_closed, receiver_closed;  ///< this end has closed what it opened of the other
};

/// The division of a route's memory:
///
///     | rooms ...           | slot 0 | slot 1 | ...
struct GpuLayout {
  static constexpr std::size_t kAlignment = 512;  ///< of rooms, as libtorch aligns tensors
  static constexpr std::size_t kMostStagedBytes = std::size_t{4} << 20;
  static constexpr std::size_t kLeastStagedBytes = std::size_t{1} << 20;
  std::size_t rooms_bytes = 0, piece_bytes = 0;

  /// REQUIRES: at least least_bytes().
  static GpuLayout of(std::size_t bytes) {
    constexpr std::size_t kMostPieceBytes = std::size_t{4} << 20;
    const std::size_t half = bytes / (2 * GpuBoard::kSlots) / kAlignment * kAlignment;
    const std::size_t piece = std::min(half, kMostPieceBytes);
    return {.rooms_bytes = (bytes / kAlignment * kAlignment) - GpuBoard::kSlots * piece,
            .piece_bytes = piece};
  }
  /// A layout without rooms, of at most `bytes`, for host memory, where no tensor of a GPU can lie.
  static GpuLayout staged(std::size_t bytes) {
    return {.rooms_bytes = 0,
            .piece_bytes = std::min(bytes / GpuBoard::kSlots / kAlignment * kAlignment, kMostStagedBytes)};
  }
  /// The size of the pieces of a tensor. Large ones cost less per byte, but both copies work at once only
  /// after the first piece and before the last.
  std::size_t piece_bytes_of(std::size_t tensor_bytes) const {
    constexpr std::size_t kPieces = 16;
    if (rooms_bytes > 0) return piece_bytes;
    return std::min(piece_bytes, std::max(rounded(tensor_bytes / kPieces, kAlignment), kLeastStagedBytes));
  }
  std::size_t bytes() const { return slot_offset(GpuBoard::kSlots); }
  static std::size_t least_bytes() { return 2 * GpuBoard::kSlots * kAlignment; }
  std::size_t slot_offset(std::uint32_t slot) const { return rooms_bytes + slot * piece_bytes; }
};

}  // namespace strata::rpc
