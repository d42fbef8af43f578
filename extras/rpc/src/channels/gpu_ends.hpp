// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "channels/free_space.hpp"
#include "channels/gpu_board.hpp"
#include "channels/torch_streams.hpp"
#include "strata/cuda/ipc.hpp"

/// A route goes from a GPU of one process to a GPU of another, or to the same one, through memory that both
/// have: on the receiver's GPU, or pinned host memory where the GPUs do not reach each other. Events order
/// the streams of both, and no host waits.
namespace strata::rpc {

/// The place of a received tensor.
struct GpuPlace {
  std::uint32_t card = 0;
  std::uint64_t offset = 0;
};

/// A stream of libtorch's.
struct CopyStream {
  explicit CopyStream(Device device) : torch(pool_stream(device)), stream(borrowed(device, torch)) {}
  c10::Stream torch;
  cuda::Stream stream;
};

/// Two for rooms and two for slots, which take them in turn: while the next copy on one waits for its event,
/// which takes half as long as a copy, a copy on the other one goes on. Copies to rooms wait for whole
/// tensors, and so hold up no pieces.
class CopyStreams {
 public:
  explicit CopyStreams(Device device)
      : of_rooms_{CopyStream(device), CopyStream(device)},
        of_slots_{CopyStream(device), CopyStream(device)} {}
  std::span<const CopyStream> of_rooms() const { return of_rooms_; }
  std::span<const CopyStream> of_slots() const { return of_slots_; }
  /// The stream for a room or a slot.
  const cuda::Stream& of(std::uint32_t card) const {
    return (card < GpuBoard::kRooms ? of_rooms_ : of_slots_)[card % 2].stream;
  }
  void synchronize() const;

 private:
  std::array<CopyStream, 2> of_rooms_, of_slots_;
};

/// A route's board, and the memory that it lies in.
using SharedBoard = std::shared_ptr<GpuBoard>;
/// The memory of a route as one end has it, and what keeps it there.
using RouteMemory = std::shared_ptr<std::byte>;

/// The sender's end. Only it knows which rooms are free. Thread safe.
class GpuSender {
 public:
  GpuSender(Device source, RouteMemory memory, GpuLayout layout, SharedBoard board);
  ~GpuSender();
  GpuSender(const GpuSender&) = delete;
  GpuSender& operator=(const GpuSender&) = delete;

  std::size_t piece_bytes_of(std::size_t tensor_bytes) const { return layout_.piece_bytes_of(tensor_bytes); }
  /// Copies a tensor, contiguous and on the source, into a room; nothing if there is none now. The copy
  /// waits for the current stream, and the current stream for the copy.
  std::optional<GpuPlace> send(const at::Tensor& tensor);
  /// Takes a room back that no receiver knows of.
  void take_back(const GpuPlace& place) { board_->cards[place.card].returned.set(); }
  /// Copies part of a tensor into a slot that is free. With the first part of it, all parts wait until the
  /// tensor is `made`.
  void send_piece(std::uint32_t slot, const at::Tensor& tensor, const cuda::Event& made, std::size_t offset,
                  std::size_t bytes);

  /// Whether work of this process waits for readers that have not come to their end. Where the receiver is
  /// gone, it waits for ever.
  bool waits();
  /// Closes what it opened of the receiver. REQUIRES: nothing is under way.
  void close();
  /// Lets the memory go once both ends are closed.
  void finish(bool receiver_is_closed) { may_free_ = receiver_is_closed; }
  bool receiver_is_closed() const { return board_->receiver_closed.is_set(); }

 private:
  struct Part {
    std::size_t offset = 0, bytes = 0;
  };
  struct Events {
    cuda::IpcEvent filled, emptied;  // its own, and the receiver's
    bool awaited = false;            // `emptied`, by copies
  };
  using AllEvents = std::array<Events, GpuBoard::kRooms + GpuBoard::kSlots>;

  void copy(std::uint32_t card, std::size_t offset, const void* from, std::size_t bytes);
  void collect(bool waits);
  bool is_free(std::uint32_t card, bool waits);
  cuda::IpcEvent& emptied(std::uint32_t card);
  void wait_until_emptied(std::uint32_t card, const cuda::Stream& stream);

  const Device source_;
  const GpuLayout layout_;
  const SharedBoard board_;
  const CopyStreams streams_;  // of copies
  std::mutex mutex_;           // guards all below
  bool closed_ = false, may_free_ = false;
  RouteMemory memory_;
  std::unique_ptr<AllEvents> events_ = std::make_unique<AllEvents>();
  cuda::Event reached_;
  FreeSpace free_;
  std::vector<std::uint32_t> free_cards_;
  std::map<std::uint32_t, Part> taken_;  // by card
};

class LandedRoom;

/// The receiver's end. Thread safe.
class GpuReceiver : public std::enable_shared_from_this<GpuReceiver> {
 public:
  GpuReceiver(Device target, RouteMemory memory, GpuLayout layout, SharedBoard board);
  ~GpuReceiver();
  GpuReceiver(const GpuReceiver&) = delete;
  GpuReceiver& operator=(const GpuReceiver&) = delete;

  Device target() const { return target_; }
  /// A tensor's room. Throws CommError if there can be none.
  std::shared_ptr<LandedRoom> landed(const GpuPlace& place, std::size_t bytes);
  /// Memory for a tensor that comes in pieces, which copies may write to.
  at::Tensor room_for_pieces(at::IntArrayRef sizes, at::ScalarType dtype);
  void read_piece(std::uint32_t slot, const at::Tensor& tensor, std::size_t offset, std::size_t bytes);
  /// Makes the current stream wait for all pieces that were read so far, and a tensor of them for it.
  std::function<void(const at::Tensor&)> wait_for_pieces();

  /// Whether work of this process waits for copies that are not done. Where the sender is gone, it waits for
  /// ever.
  bool waits();
  void close();  ///< as that of the sender
  void finish(bool sender_is_closed) { may_free_ = sender_is_closed; }
  bool sender_is_closed() const { return board_->sender_closed.is_set(); }

 private:
  friend class LandedRoom;
  struct Events {
    cuda::IpcEvent filled;   // the sender's
    cuda::Event landed;      // the tensor is there
    cuda::IpcEvent emptied;  // its own
    bool awaited = false;    // `filled`, by arrivals
  };
  using AllEvents = std::array<Events, GpuBoard::kRooms + GpuBoard::kSlots>;

  void wait_until_filled(std::uint32_t card);
  void record_emptied(std::uint32_t card, const cuda::Stream& stream);
  void give_back(std::uint32_t card, const std::vector<CUstream_st*>& used) noexcept;

  const Device target_;
  const GpuLayout layout_;
  const SharedBoard board_;
  const CopyStreams streams_;  // of arrivals
  std::mutex mutex_;           // guards all below
  bool may_free_ = false;
  RouteMemory memory_;
  std::unique_ptr<AllEvents> events_ = std::make_unique<AllEvents>();
  cuda::Event reached_;
  cuda::Stream returns_;
};

/// A tensor's room, given back at the end of this object, after what the streams that used it have to do.
class LandedRoom {
 public:
  LandedRoom(std::shared_ptr<GpuReceiver> receiver, std::uint32_t card, std::byte* data)
      : receiver_(std::move(receiver)), card_(card), data_(data) {}
  ~LandedRoom() { receiver_->give_back(card_, used_); }
  LandedRoom(const LandedRoom&) = delete;
  LandedRoom& operator=(const LandedRoom&) = delete;

  std::byte* data() const { return data_; }
  /// Makes the current stream wait until the tensor is there.
  void use();

 private:
  const std::shared_ptr<GpuReceiver> receiver_;
  const std::uint32_t card_;
  std::byte* const data_;
  std::mutex mutex_;
  std::vector<CUstream_st*> used_;  // streams
};

/// A room for a tensor on its way. It is the receiver's once it was handed over.
class GpuRoom {
 public:
  GpuRoom(std::shared_ptr<GpuSender> sender, const GpuPlace& place)
      : sender_(std::move(sender)), place_(place) {}
  ~GpuRoom() {
    if (!handed_over_) sender_->take_back(place_);
  }
  GpuRoom(const GpuRoom&) = delete;
  GpuRoom& operator=(const GpuRoom&) = delete;
  const GpuPlace& hand_over() {
    handed_over_ = true;
    return place_;
  }

 private:
  const std::shared_ptr<GpuSender> sender_;
  const GpuPlace place_;
  bool handed_over_ = false;
};

}  // namespace strata::rpc
