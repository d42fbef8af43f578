// SPDX-License-Identifier: Apache-2.0
#include "channels/gpu_ends.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

std::string text_of(const GpuCard::Handle& handle) { return {handle.data(), handle.size()}; }

/// Makes an event of this process, with its handle on the card for the other end.
void make_once(cuda::IpcEvent& event, Device device, GpuCard::Handle& handle) {
  if (event) return;
  event = cuda::IpcEvent(device);
  std::ranges::copy(event.handle(), handle.begin());
}

/// Marks memory of libtorch as used on a stream, so that it is not reused before the stream's work.
void use_on(const CopyStream& stream, const at::Tensor& tensor) {
  c10::impl::VirtualGuardImpl(c10::kCUDA).recordDataPtrOnStream(tensor.storage().data_ptr(), stream.torch);
}

/// Whether one of the events that streams wait for is not complete.
template <typename AllEvents, typename Member>
bool any_is_awaited(const AllEvents& all, Member event) {
  return std::ranges::any_of(
      all, [&](const auto& each) { return each.awaited && each.*event && !(each.*event).is_complete(); });
}

/// Keeps memory until the process ends.
void keep_for_ever(RouteMemory memory) { static_cast<void>(new RouteMemory(std::move(memory))); }

}  // namespace

void CopyStreams::synchronize() const {
  for (const auto* streams : {&of_rooms_, &of_slots_})
    for (const CopyStream& each : *streams) each.stream.synchronize();
}

// ---- sender ----

GpuSender::GpuSender(Device source, RouteMemory memory, GpuLayout layout, SharedBoard board)
    : source_(source),
      layout_(layout),
      board_(std::move(board)),
      streams_(source),
      memory_(std::move(memory)),
      reached_(source),
      free_(0, layout.rooms_bytes) {
  for (std::uint32_t card = GpuBoard::kRooms; card-- > 0;) free_cards_.push_back(card);
}

GpuSender::~GpuSender() {
  // Memory that the other process may still use stays until this one ends.
  if (!closed_) keep_for_ever(std::move(memory_));
  if (!may_free_) static_cast<void>(events_.release());
}

std::optional<GpuPlace> GpuSender::send(const at::Tensor& tensor) {
  const std::size_t whole = rounded(tensor.nbytes(), GpuLayout::kAlignment);
  if (whole > layout_.rooms_bytes) return std::nullopt;
  const cuda::DeviceGuard guard(source_);
  const cuda::Stream caller = current_stream(source_);
  const std::lock_guard lock(mutex_);
  if (closed_) return std::nullopt;
  collect(false);
  std::optional<std::size_t> offset = free_cards_.empty() ? std::nullopt : free_.take(whole);
  if (!offset) {
    collect(true);
    if (free_cards_.empty()) return std::nullopt;
    offset = free_.take(whole);
  }
  if (!offset) return std::nullopt;
  const std::uint32_t card = free_cards_.back();
  free_cards_.pop_back();
  taken_[card] = {.offset = *offset, .bytes = whole};
  board_->cards[card].returned.set(false);
  board_->cards[card].was_read.set(false);
  reached_.record(caller);
  streams_.of(card).wait(reached_);
  copy(card, *offset, tensor.const_data_ptr(), tensor.nbytes());
  (*events_)[card].filled.make_wait(caller);
  return GpuPlace{.card = card, .offset = *offset};
}

void GpuSender::send_piece(std::uint32_t slot, const at::Tensor& tensor, const cuda::Event& made,
                           std::size_t offset, std::size_t bytes) {
  const cuda::DeviceGuard guard(source_);
  const std::lock_guard lock(mutex_);
  if (offset == 0) {
    for (const CopyStream& each : streams_.of_slots()) {
      each.stream.wait(made);
      use_on(each, tensor);
    }
  }
  const std::uint32_t card = GpuBoard::kRooms + slot;
  if (board_->cards[card].was_read.is_set()) wait_until_emptied(card, streams_.of(card));
  copy(card, layout_.slot_offset(slot), static_cast<const std::byte*>(tensor.const_data_ptr()) + offset,
       bytes);
}

void GpuSender::copy(std::uint32_t card, std::size_t offset, const void* from, std::size_t bytes) {
  const cuda::Stream& stream = streams_.of(card);
  make_once((*events_)[card].filled, source_, board_->cards[card].filled);
  cuda::copy_async(memory_.get() + offset, from, bytes, stream);
  (*events_)[card].filled.record(stream);
}

/// Frees rooms that the receiver gave back: those whose readers are done, or also, if there is need, those
/// that the next copies have to wait for.
void GpuSender::collect(bool waits) {
  for (auto each = taken_.begin(); each != taken_.end();) {
    const auto [card, part] = *each;
    if (!is_free(card, waits)) {
      ++each;
      continue;
    }
    each = taken_.erase(each);
    free_.give_back(part.offset, part.bytes);
    free_cards_.push_back(card);
  }
}

bool GpuSender::is_free(std::uint32_t card, bool waits) {
  if (!board_->cards[card].returned.is_set()) return false;
  if (!board_->cards[card].was_read.is_set()) {
    // The next copy to this memory may be on another stream.
    for (const CopyStream& each : streams_.of_rooms()) (*events_)[card].filled.make_wait(each.stream);
    return true;
  }
  if (emptied(card).is_complete()) return true;
  if (waits)
    for (const CopyStream& each : streams_.of_rooms()) wait_until_emptied(card, each.stream);
  return waits;
}

cuda::IpcEvent& GpuSender::emptied(std::uint32_t card) {
  cuda::IpcEvent& event = (*events_)[card].emptied;
  if (!event) event = cuda::IpcEvent(source_, text_of(board_->cards[card].emptied));
  return event;
}

void GpuSender::wait_until_emptied(std::uint32_t card, const cuda::Stream& stream) {
  emptied(card).make_wait(stream);
  (*events_)[card].awaited = true;
}

bool GpuSender::waits() {
  const cuda::DeviceGuard guard(source_);
  const std::lock_guard lock(mutex_);
  return any_is_awaited(*events_, &Events::emptied);
}

void GpuSender::close() {
  const cuda::DeviceGuard guard(source_);
  const std::lock_guard lock(mutex_);
  streams_.synchronize();
  closed_ = true;
  memory_.reset();
  for (Events& events : *events_) events.emptied = cuda::IpcEvent();
  board_->sender_closed.set();
}

// ---- receiver ----

GpuReceiver::GpuReceiver(Device target, RouteMemory memory, GpuLayout layout, SharedBoard board)
    : target_(target),
      layout_(layout),
      board_(std::move(board)),
      streams_(target),
      memory_(std::move(memory)),
      reached_(target),
      returns_(target) {}

GpuReceiver::~GpuReceiver() {
  if (may_free_) return;
  keep_for_ever(std::move(memory_));  // which the sender may still have mapped
  static_cast<void>(events_.release());
}

std::shared_ptr<LandedRoom> GpuReceiver::landed(const GpuPlace& place, std::size_t bytes) {
  if (place.card >= GpuBoard::kRooms || place.offset % GpuLayout::kAlignment != 0 ||
      place.offset > layout_.rooms_bytes || bytes > layout_.rooms_bytes - place.offset)
    throw CommError("a message names an impossible place of a tensor");
  auto room = std::make_shared<LandedRoom>(shared_from_this(), place.card, memory_.get() + place.offset);
  const cuda::DeviceGuard guard(target_);
  const std::lock_guard lock(mutex_);
  wait_until_filled(place.card);
  cuda::Event& landed = (*events_)[place.card].landed;
  if (landed.get() == nullptr) landed = cuda::Event(target_);
  landed.record(streams_.of(place.card));
  return room;
}

at::Tensor GpuReceiver::room_for_pieces(at::IntArrayRef sizes, at::ScalarType dtype) {
  const CopyStream& first = streams_.of_slots().front();
  at::Tensor tensor = empty_on(first.torch, sizes, dtype);
  const cuda::DeviceGuard guard(target_);
  const std::lock_guard lock(mutex_);
  reached_.record(first.stream);
  for (const CopyStream& each : streams_.of_slots()) {
    each.stream.wait(reached_);
    use_on(each, tensor);
  }
  return tensor;
}

void GpuReceiver::read_piece(std::uint32_t slot, const at::Tensor& tensor, std::size_t offset,
                             std::size_t bytes) {
  const cuda::DeviceGuard guard(target_);
  const std::lock_guard lock(mutex_);
  if (bytes > layout_.piece_bytes) throw CommError("a piece of a tensor is larger than a slot");
  const std::uint32_t card = GpuBoard::kRooms + slot;
  const cuda::Stream& stream = streams_.of(card);
  wait_until_filled(card);
  cuda::copy_async(static_cast<std::byte*>(tensor.mutable_data_ptr()) + offset,
                   memory_.get() + layout_.slot_offset(slot), bytes, stream);
  record_emptied(card, stream);
}

std::function<void(const at::Tensor&)> GpuReceiver::wait_for_pieces() {
  const CopyStream& first = streams_.of_slots().front();
  {
    const cuda::DeviceGuard guard(target_);
    const std::lock_guard lock(mutex_);
    for (const CopyStream& each : streams_.of_slots()) {
      reached_.record(each.stream);
      first.stream.wait(reached_);
    }
  }
  return wait_for(first.torch);
}

void GpuReceiver::wait_until_filled(std::uint32_t card) {
  Events& events = (*events_)[card];
  if (!events.filled) events.filled = cuda::IpcEvent(target_, text_of(board_->cards[card].filled));
  events.filled.make_wait(streams_.of(card));
  events.awaited = true;
}

void GpuReceiver::record_emptied(std::uint32_t card, const cuda::Stream& stream) {
  cuda::IpcEvent& emptied = (*events_)[card].emptied;
  make_once(emptied, target_, board_->cards[card].emptied);
  emptied.record(stream);
  board_->cards[card].was_read.set();
}

void GpuReceiver::give_back(std::uint32_t card, const std::vector<CUstream_st*>& used) noexcept {
  try {
    const cuda::DeviceGuard guard(target_);
    const std::lock_guard lock(mutex_);
    if (!used.empty()) {
      std::vector<CUstream_st*> streams = used;
      // Kernels of the thread that drops the tensor last may read it, too.
      const cuda::Stream own = current_stream(target_);
      if (std::ranges::find(streams, own.get()) == streams.end()) streams.push_back(own.get());
      for (CUstream_st* const stream : streams) {
        if (streams.size() == 1) break;
        reached_.record(cuda::Stream::borrow(target_, stream));
        returns_.wait(reached_);
      }
      record_emptied(card, streams.size() == 1 ? own : returns_);
    }
    board_->cards[card].returned.set();
  } catch (const std::exception&) {  // the device is lost, or the process ends: nobody needs the room
  }
}

void LandedRoom::use() {
  const cuda::DeviceGuard guard(receiver_->target());
  const cuda::Stream stream = current_stream(receiver_->target());
  stream.wait((*receiver_->events_)[card_].landed);
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(used_, stream.get()) == used_.end()) used_.push_back(stream.get());
}

bool GpuReceiver::waits() {
  const cuda::DeviceGuard guard(target_);
  const std::lock_guard lock(mutex_);
  return any_is_awaited(*events_, &Events::filled);
}

void GpuReceiver::close() {
  const cuda::DeviceGuard guard(target_);
  const std::lock_guard lock(mutex_);
  streams_.synchronize();
  for (Events& events : *events_) events.filled = cuda::IpcEvent();
  board_->receiver_closed.set();
}

}  // namespace strata::rpc
