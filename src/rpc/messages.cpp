// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "wire.hpp"

/// How requests and answers become messages, and messages with their tensors requests and answers again.
namespace strata::rpc {
namespace {

using Message = comm::MessageLinks::Message;
using Landing = comm::MessageLinks::Landing;
using Direction = Channels::Direction;

bool is_request(Kind kind) { return kind == Kind::call || kind == Kind::create || kind == Kind::fetch; }
/// Parts of other messages, which count themselves.
bool is_part(Kind kind) { return kind == Kind::piece || kind == Kind::emptied; }

at::ScalarType dtype_of(const TensorHead& head) { return static_cast<at::ScalarType>(head.dtype); }

std::size_t bytes_of(const TensorHead& head) {
  return static_cast<std::size_t>(c10::multiply_integers(head.sizes)) * at::elementSize(dtype_of(head));
}

std::uint64_t total_bytes(const std::vector<TensorHead>& tensors, TensorHead::Way way) {
  std::uint64_t total = 0;
  for (const TensorHead& tensor : tensors)
    if (tensor.way == way) total += bytes_of(tensor);
  return total;
}

at::Tensor room_for(const TensorHead& head) {
  return at::empty(
      head.sizes,
      at::TensorOptions(dtype_of(head)).device(at::kCPU).pinned_memory(head.destination.is_cuda()));
}

at::Tensor in_place(const TensorHead& head, std::shared_ptr<std::byte> memory) {
  void* const data = memory.get();
  return at::from_blob(
      data, head.sizes, [kept = std::move(memory)](void*) mutable { kept.reset(); },
      at::TensorOptions(dtype_of(head)));
}

}  // namespace

/// Whether a run that is at rest has no such message under way.
bool is_counted(Kind kind) { return kind != Kind::state && kind != Kind::verdict && !is_part(kind); }

// ---- sending ----

/// Notes for a backward pass what crosses ranks.
void Core::join_context(int to, Head& head, const Parcel& parcel) {
  if (!is_request(head.kind) && head.kind != Kind::answer) return;
  head.context = current_context(*this);
  if (!head.context || to == rank()) return;
  std::vector<at::Tensor> sources;
  for (const TensorPiece& piece : parcel.tensors)
    if (piece.source.defined()) sources.push_back(piece.source);
  const std::shared_ptr<ContextState> context = sources.empty() ? nullptr : contexts_.join(head.context);
  if (!context) return;
  head.link = contexts_.next_link();
  context->add_sent(head.link, std::move(sources));
}

/// Takes a tensor of a message to where its way begins.
TensorHead Core::load(int to, TensorPiece& piece, Message& message, PieceSender::Transfer& transfer) {
  TensorHead head{.dtype = static_cast<std::int8_t>(piece.values.scalar_type()),
                  .sizes = piece.values.sizes().vec(),
                  .destination = piece.destination,
                  .requires_grad = piece.requires_grad};
  const std::size_t bytes = piece.values.nbytes();
  const Channel channel = channels_->to(to, bytes);
  if (channel != Channel::tcp) channels_->count(channel, Direction::sent, bytes);
  if (piece.room) {
    head.way = TensorHead::Way::landed;
    head.offset = piece.room->hand_over();
  } else if (channel == Channel::shared_memory) {
    head.way = TensorHead::Way::in_pieces;
    transfer.tensors.emplace(transfer.num_seen, std::move(piece.values));
  } else {
    message.bulk.emplace_back(static_cast<const std::byte*>(piece.values.const_data_ptr()), bytes);
  }
  ++transfer.num_seen;
  return head;
}

void Core::send(int to, Head head, Parcel parcel) {
  join_context(to, head, parcel);
  PieceSender::Transfer transfer;
  {
    const std::lock_guard lock(mutex_);
    if (is_counted(head.kind)) ++sent_;
    for (std::shared_ptr<Holding>& handle : parcel.handles) {
      if (to == rank()) continue;
      const std::uint64_t pass = next_++;
      head.handles.push_back({.object = handle->object(), .pass = pass});
      if (!lost_.contains(to)) objects_.passes.emplace(pass, Objects::Pass{.holding = handle, .to = to});
    }
    if (lost_.contains(to)) return;  // and rooms that were taken are given back
    transfer.number = next_++;
  }
  if (to == rank()) {
    // On the thread of the links as all arrivals, so that this thread holds no lock of the caller's.
    links_->post([this, moved_head = std::move(head), moved = std::move(parcel)]() mutable {
      dispatch(rank(), std::move(moved_head), std::move(moved));
    });
    return;
  }
  head.payload = std::move(parcel.payload);
  head.transfer = transfer.number;
  Message message;
  for (TensorPiece& piece : parcel.tensors) head.tensors.push_back(load(to, piece, message, transfer));
  message.head = text_of(head);
  message.memory = std::make_shared<std::vector<TensorPiece>>(std::move(parcel.tensors));
  channels_->count(Channel::tcp, Direction::sent,
                   message.head.size() + total_bytes(head.tensors, TensorHead::Way::in_message));
  links_->send(to, std::move(message));
  if (!transfer.tensors.empty())
    links_->post([this, to, moved = std::move(transfer)]() mutable { pieces_->send(to, std::move(moved)); });
}

// ---- receiving ----

Landing Core::land(int peer, const std::string& text) {
  const auto landed = std::make_shared<Arrival>();
  landed->head = parse<Head>(text);
  const std::vector<TensorHead>& heads = landed->head.tensors;
  landed->tensors.resize(heads.size());
  // These first, so that they are given back even if there is no room for the others.
  for (std::size_t i = 0; i < heads.size(); ++i)
    if (heads[i].way == TensorHead::Way::landed)
      landed->tensors[i] = in_place(heads[i], channels_->landed(peer, heads[i].offset, bytes_of(heads[i])));
  Landing landing;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].way == TensorHead::Way::landed) continue;
    at::Tensor& room = landed->tensors[i] = room_for(heads[i]);
    if (heads[i].way == TensorHead::Way::in_message)
      landing.bulk.emplace_back(static_cast<std::byte*>(room.mutable_data_ptr()), room.nbytes());
  }
  landing.memory = landed;
  return landing;
}

void Core::arrived(int peer, std::string text, std::shared_ptr<void> memory) {
  try {
    auto arrival = std::static_pointer_cast<Arrival>(memory);
    if (!arrival) {
      arrival = std::make_shared<Arrival>();
      arrival->head = parse<Head>(text);
      arrival->has_room = false;
    }
    const Head& head = arrival->head;
    channels_->count(Channel::tcp, Direction::received,
                     text.size() + total_bytes(head.tensors, TensorHead::Way::in_message));
    if (head.kind == Kind::piece) {
      take_piece(peer, parse<Piece>(head.payload));
    } else if (head.kind == Kind::emptied) {
      pieces_->emptied(peer, parse<Piece>(head.payload).slot);
    } else {
      arrival->bytes_left = total_bytes(head.tensors, TensorHead::Way::in_pieces);
      arrivals_[peer].push_back(std::move(arrival));
    }
  } catch (const std::exception& error) {
    warn_unreadable(peer, error);
  }
  open_complete(peer);
}

void Core::take_piece(int peer, const Piece& piece) {
  std::deque<std::shared_ptr<Arrival>>& arrivals = arrivals_[peer];
  const auto found = std::ranges::find_if(
      arrivals, [&](const auto& arrival) { return arrival->head.transfer == piece.transfer; });
  const std::span<const std::byte> slot = channels_->slot_from(peer, piece.slot);
  if (found == arrivals.end() || piece.bytes > slot.size() || piece.bytes > (*found)->bytes_left)
    throw CommError("a piece of a tensor is of no message");
  Arrival& arrival = **found;
  if (arrival.has_room) {
    const at::Tensor& tensor = arrival.tensors.at(piece.tensor);
    if (piece.offset > tensor.nbytes() || piece.bytes > tensor.nbytes() - piece.offset)
      throw CommError("a piece of a tensor does not fit into it");
    std::memcpy(static_cast<std::byte*>(tensor.mutable_data_ptr()) + piece.offset, slot.data(), piece.bytes);
  }
  arrival.bytes_left -= piece.bytes;
  send(peer, {.kind = Kind::emptied}, {.payload = text_of(piece)});
}

/// Messages of a peer are opened in order, so those behind one whose pieces still arrive wait for it.
void Core::open_complete(int peer) {
  std::deque<std::shared_ptr<Arrival>>& arrivals = arrivals_[peer];
  while (!arrivals.empty() && arrivals.front()->bytes_left == 0) {
    const std::shared_ptr<Arrival> arrival = std::move(arrivals.front());
    arrivals.pop_front();
    try {
      open(peer, *arrival);
    } catch (const std::exception& error) {
      warn_unreadable(peer, error);
    }
  }
}

/// Whoever waits for an answer hears of it by a timeout.
void Core::warn_unreadable(int peer, const std::exception& error) const {
  spdlog::warn("{} sent a message that cannot be read: {}", describe(peer), error.what());
}

void Core::open(int peer, Arrival& arrival) {
  Head head = std::move(arrival.head);
  Parcel parcel{.payload = std::move(head.payload),
                .tensors = {},
                .handles = {},
                .context = head.context,
                .link = head.link};
  for (const HandleHead& handle : head.handles) parcel.handles.push_back(adopt(peer, handle));
  if (!arrival.has_room && (is_request(head.kind) || head.kind == Kind::answer)) return refuse(peer, head);
  for (std::size_t i = 0; i < arrival.tensors.size(); ++i) {
    const Channel channel = channels_->to(peer, arrival.tensors[i].nbytes());
    if (channel != Channel::tcp) channels_->count(channel, Direction::received, arrival.tensors[i].nbytes());
    parcel.tensors.push_back({.values = std::move(arrival.tensors[i]),
                              .destination = head.tensors[i].destination,
                              .requires_grad = head.tensors[i].requires_grad});
  }
  dispatch(peer, std::move(head), std::move(parcel));
}

/// There was no room for the tensors of a message.
void Core::refuse(int peer, const Head& head) {
  Head failed{.kind = Kind::failure, .id = head.id};
  failed.failure = {.type = "strata::OutOfMemory",
                    .text = "no room for the tensors of a message",
                    .remedy = {},
                    .rank = rank(),
                    .host = agent(rank()).host,
                    .agent = agent(rank()).name};
  if (head.kind == Kind::answer) return dispatch(peer, std::move(failed), {});
  send(peer, std::move(failed));
  const std::lock_guard lock(mutex_);
  ++received_;
}

}  // namespace strata::rpc
