// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/safe_numerics.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "wire.hpp"

/// This file turns requests and answers into messages, and messages with their tensors back into them.
namespace strata::rpc {
namespace {

using Message = MessageLinks::Message;
using BulkMemory = MessageLinks::BulkMemory;
using Direction = Channels::Direction;
using Way = TensorHead::Way;

/// Smaller payloads are copied into and out of the head, which costs less than another piece of the message.
constexpr std::size_t kLeastPayloadInBulk = std::size_t{64} << 10;

bool is_request(Kind kind) { return kind == Kind::call || kind == Kind::create || kind == Kind::fetch; }
/// Whether a message is a part of another one, which counts itself.
bool is_part(Kind kind) {
  return kind == Kind::piece || kind == Kind::emptied || kind == Kind::network_piece ||
         kind == Kind::route_note;
}

at::ScalarType dtype_of(const TensorHead& head) { return static_cast<at::ScalarType>(head.dtype); }

/// Whether a tensor goes in pieces from GPU to GPU.
bool is_in_gpu_pieces(const TensorHead& head) {
  return head.way == Way::in_gpu_pieces || head.way == Way::in_staged_pieces;
}
bool is_in_pieces(const TensorHead& head) { return head.way == Way::in_pieces || is_in_gpu_pieces(head); }
/// Whether it arrives some time after its message.
bool follows(const TensorHead& head) { return is_in_pieces(head) || head.way == Way::by_network; }

/// Bytes of a message besides its head.
std::uint64_t bytes_in_message(const Head& head) {
  std::uint64_t total = head.payload_in_bulk;
  for (const TensorHead& tensor : head.tensors)
    if (tensor.way == Way::in_message) total += bytes_of(tensor);
  return total;
}
std::uint64_t bytes_that_follow(const std::vector<TensorHead>& tensors) {
  std::uint64_t total = 0;
  for (const TensorHead& tensor : tensors)
    if (follows(tensor)) total += bytes_of(tensor);
  return total;
}

at::Tensor room_for(const TensorHead& head) {
  return at::empty(
      head.sizes,
      at::TensorOptions(dtype_of(head)).device(at::kCPU).pinned_memory(head.destination.is_cuda()));
}

/// Memory for the bytes of a piece on their way to a GPU.
at::Tensor room_for(const NetworkPiece& piece) {
  if (piece.bytes > NetworkPiece::kMostBytes) throw CommError("a piece of a tensor is too large");
  return at::empty({static_cast<std::int64_t>(piece.bytes)},
                   at::TensorOptions(at::kByte).pinned_memory(true));
}

/// A tensor over memory of an owner that is notified of its end.
at::Tensor in_place(const TensorHead& head, void* data, std::shared_ptr<void> owner, c10::Device device) {
  return at::from_blob(
      data, head.sizes, [kept = std::move(owner)](void*) mutable { kept.reset(); },
      at::TensorOptions(dtype_of(head)).device(device), device);
}

}  // namespace

Channel channel_of(Way way) {
  switch (way) {
    case Way::on_gpu:
    case Way::in_gpu_pieces:
      return Channel::cuda_ipc;
    case Way::landed:
    case Way::in_pieces:
    case Way::in_staged_pieces:
      return Channel::shared_memory;
    case Way::in_message:
    case Way::by_network:  // which counts what it takes
      break;
  }
  return Channel::tcp;
}

std::size_t bytes_of(const TensorHead& head) {
  std::uint64_t bytes = at::elementSize(dtype_of(head));
  for (const std::int64_t size : head.sizes)
    if (size < 0 || c10::mul_overflows(bytes, static_cast<std::uint64_t>(size), &bytes))
      throw CommError("a tensor of a message has an impossible size");
  return bytes;
}

/// Whether a run that is at rest has no such message under way.
bool is_counted(Kind kind) {
  return kind != Kind::state && kind != Kind::verdict && kind != Kind::ask_alive && kind != Kind::alive &&
         kind != Kind::ending && !is_part(kind);
}

// ---- sending ----

/// Notes the tensors that cross ranks for a backward pass.
void Core::join_context(int to, Head& head, const Parcel& parcel) {
  if (!is_request(head.kind) && head.kind != Kind::answer) return;
  head.context = current_context(*this);
  if (!head.context || to == rank()) return;
  // A context that has ended on this rank must not reach others: nobody would end it there.
  if (is_request(head.kind) && !contexts_.add_peer(head.context, to)) {
    head.context = {};
    return;
  }
  std::vector<at::Tensor> sources;
  for (const TensorPiece& piece : parcel.tensors)
    if (piece.source.defined()) sources.push_back(piece.source);
  const std::shared_ptr<ContextState> context = sources.empty() ? nullptr : contexts_.join(head.context);
  if (!context) return;
  head.link = contexts_.next_link();
  context->add_sent(head.link, std::move(sources));
}

/// Puts a tensor of a message to the start of its way.
TensorHead Core::load(int to, TensorPiece& piece, Message& message) {
  TensorHead head{.dtype = static_cast<std::int8_t>(piece.values.scalar_type()),
                  .sizes = piece.values.sizes().vec(),
                  .destination = piece.destination,
                  .requires_grad = piece.requires_grad,
                  .route = piece.gpu_route ? *piece.gpu_route : piece.network_route.value_or(0)};
  const std::size_t bytes = piece.values.nbytes();
  if (piece.gpu_room) {
    const GpuPlace& place = piece.gpu_room->hand_over();
    head.way = Way::on_gpu;
    head.offset = place.offset;
    head.gpu_card = place.card;
  } else if (piece.gpu_route) {
    head.way = channels_->is_staged(to, *piece.gpu_route) ? Way::in_staged_pieces : Way::in_gpu_pieces;
  } else if (piece.network_route) {
    head.way = Way::by_network;
  } else if (piece.room) {
    head.way = Way::landed;
    head.offset = piece.room->hand_over();
  } else if (channels_->to(to, bytes) == Channel::shared_memory) {
    head.way = Way::in_pieces;
  } else {
    message.bulk.emplace_back(static_cast<const std::byte*>(piece.values.const_data_ptr()), bytes);
  }
  const Channel channel = channel_of(head.way);
  if (channel != Channel::tcp) channels_->count(channel, Direction::sent, bytes);
  return head;
}

void Core::send(int to, Head head, Parcel parcel) {
  join_context(to, head, parcel);
  std::map<PieceSender::Path, PieceSender::Transfer> transfers;
  std::map<std::uint32_t, NetworkSender::Transfer> network_transfers;  // by route
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
    head.transfer = next_++;
  }
  if (to == rank()) {
    if (is_request(head.kind) && logs_calls()) note_cargo(head.id, cargo_of(parcel));
    // This runs on the thread of the links, as all arrivals, so that it holds no lock of the caller's.
    links_->post([this, id = head.id, moved_head = std::move(head), moved = std::move(parcel)]() mutable {
      try {
        dispatch(rank(), std::move(moved_head), std::move(moved));
      } catch (const std::exception&) {  // no memory
        answer({.kind = Kind::failure, .id = id, .failure = failure_of(std::current_exception())}, {});
      }
    });
    return;
  }
  Message message;
  const auto kept = std::make_shared<Parcel>();  // until it is sent
  if (parcel.payload.size() < kLeastPayloadInBulk) {
    head.payload = std::move(parcel.payload);
  } else {
    kept->payload = std::move(parcel.payload);
    head.payload_in_bulk = kept->payload.size();
    message.bulk.push_back(std::as_bytes(std::span(kept->payload)));
  }
  for (TensorPiece& piece : parcel.tensors) {
    const auto place = static_cast<std::uint32_t>(head.tensors.size());
    const TensorHead& loaded = head.tensors.emplace_back(load(to, piece, message));
    if (loaded.way == Way::by_network) {
      NetworkSender::Transfer& transfer = network_transfers[loaded.route];
      transfer.number = head.transfer;
      transfer.parts.push_back({place, std::move(piece.values), std::move(piece.made)});
    }
    if (!is_in_pieces(loaded)) continue;
    PieceSender::Transfer& transfer = transfers[{
        .peer = to, .gpu_route = piece.gpu_route ? std::int64_t{*piece.gpu_route} : Piece::kOnHost}];
    transfer.number = head.transfer;
    transfer.parts.emplace(
        place, PieceSender::Part{.values = std::move(piece.values), .made = std::move(piece.made)});
  }
  if (is_request(head.kind) && logs_calls())
    note_cargo(head.id, cargo_of(head.payload.size() + head.payload_in_bulk, head.tensors));
  message.head = text_of(head);
  kept->tensors = std::move(parcel.tensors);
  message.memory = kept;
  channels_->count(Channel::tcp, Direction::sent, message.head.size() + bytes_in_message(head));
  links_->send(to, std::move(message));
  for (auto& [route, transfer] : network_transfers)
    channels_->network().to(to, route).send(std::move(transfer));
  for (auto& [path, transfer] : transfers)
    links_->post([this, to_path = path, moved = std::move(transfer)]() mutable {
      try {
        pieces_->send(to_path, std::move(moved));
      } catch (const std::exception& error) {  // the call ends with its timeout
        spdlog::warn("a tensor for {} cannot be sent: {}", describe(to_path.peer), error.what());
      }
    });
}

// ---- receiving ----

BulkMemory Core::memory_for_bulk(int peer, const std::string& text) {
  unanswered_[at(peer)] = 0;
  const auto landed = std::make_shared<Arrival>();
  landed->head = parse<Head>(text);
  const std::vector<TensorHead>& heads = landed->head.tensors;
  landed->tensors.resize(heads.size());
  landed->waits.resize(heads.size());
  // These first, so that they are given back even if there is no room for the others.
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].way == Way::landed) {
      std::shared_ptr<std::byte> memory = channels_->landed(peer, heads[i].offset, bytes_of(heads[i]));
      std::byte* const data = memory.get();
      landed->tensors[i] = in_place(heads[i], data, std::move(memory), at::kCPU);
    } else if (heads[i].way == Way::on_gpu) {
      receive_on_gpu(peer, *landed, i);
    }
  }
  BulkMemory target;
  std::string& payload = landed->head.payload;
  if (const std::uint64_t bytes = landed->head.payload_in_bulk; bytes > 0) {
    payload.resize(bytes);
    target.bulk.push_back(std::as_writable_bytes(std::span(payload)));
  }
  if (landed->head.kind == Kind::network_piece) {
    at::Tensor& bytes = landed->tensors.emplace_back(room_for(parse<NetworkPiece>(landed->head.payload)));
    target.bulk.emplace_back(static_cast<std::byte*>(bytes.mutable_data_ptr()), bytes.nbytes());
  }
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (landed->tensors[i].defined()) continue;
    if (is_in_gpu_pieces(heads[i])) {
      landed->tensors[i] =
          channels_->gpu_from(peer, heads[i].route)->room_for_pieces(heads[i].sizes, dtype_of(heads[i]));
      continue;
    }
    if (heads[i].way == Way::by_network) {
      landed->tensors[i] =
          channels_->network().from(peer, heads[i].route).room(heads[i].sizes, dtype_of(heads[i]));
      continue;
    }
    at::Tensor& room = landed->tensors[i] = room_for(heads[i]);
    if (heads[i].way == Way::in_message)
      target.bulk.emplace_back(static_cast<std::byte*>(room.mutable_data_ptr()), room.nbytes());
  }
  target.memory = landed;
  return target;
}

void Core::receive_on_gpu(int peer, Arrival& arrival, std::size_t place) {
  const TensorHead& head = arrival.head.tensors[place];
  const std::shared_ptr<GpuReceiver> receiver = channels_->gpu_from(peer, head.route);
  const std::shared_ptr<LandedRoom> room =
      receiver->landed({.card = head.gpu_card, .offset = head.offset}, bytes_of(head));
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(receiver->target().index));
  arrival.tensors[place] = in_place(head, room->data(), room, device);
  arrival.waits[place] = [room](const at::Tensor&) { room->use(); };
}

/// Takes a message. One that cannot be read ends the connection: callers that wait for an answer get an
/// error, and a graceful end would wait for ever for a message that was sent and never received.
void Core::arrived(int peer, std::string text, std::shared_ptr<void> memory) {
  unanswered_[at(peer)] = 0;
  try {
    take(peer, text, std::static_pointer_cast<Arrival>(memory));
    open_complete(peer);
  } catch (const std::exception& error) {
    throw CommError(unreadable(peer, error));
  }
}

std::string Core::unreadable(int peer, const std::exception& error) const {
  std::string reason = fmt::format("it sent a message that cannot be read: {}", error.what());
  spdlog::warn("rpc: {}: {}", describe(peer), reason);
  return reason;
}

/// Checks the ranks that this rank may send something to because of the message.
void Core::check_ranks(const Head& head) const {
  const auto exists = [this](int rank) { return rank >= 0 && rank < size(); };
  bool all_exist = !head.context || exists(head.context.creator);
  for (const HandleHead& handle : head.handles) all_exist = all_exist && exists(handle.object.owner);
  if (!all_exist) throw CommError("it names a rank that does not exist");
}

void Core::take(int peer, const std::string& text, std::shared_ptr<Arrival> arrival) {
  if (!arrival) {
    arrival = std::make_shared<Arrival>();
    arrival->head = parse<Head>(text);
    arrival->has_room = false;
  }
  const Head& head = arrival->head;
  check_ranks(head);
  channels_->count(Channel::tcp, Direction::received, text.size() + bytes_in_message(head));
  if (head.kind == Kind::piece) {
    take_piece(peer, parse<Piece>(head.payload));
  } else if (head.kind == Kind::emptied) {
    pieces_->emptied(peer, parse<Piece>(head.payload));
  } else if (head.kind == Kind::network_piece) {
    take_network_piece(peer, *arrival);
  } else if (head.kind == Kind::route_note) {
    take_route_note(peer, parse<RouteNote>(head.payload));
  } else if (head.kind == Kind::ask_alive) {
    send(peer, {.kind = Kind::alive});
  } else if (head.kind == Kind::ending) {
    note_fault(head.payload);
    const std::lock_guard lock(mutex_);
    ending_faults_.emplace(peer, head.payload);
  } else if (head.kind == Kind::alive) {
    return;  // which memory_for_bulk() has noted
  } else {
    arrival->bytes_left = bytes_that_follow(head.tensors);
    arrivals_[peer].push_back(std::move(arrival));
  }
}

/// The message that `bytes` more bytes have arrived for.
Arrival& Core::arrival_of(int peer, std::uint64_t transfer, std::uint64_t bytes) {
  std::deque<std::shared_ptr<Arrival>>& arrivals = arrivals_[peer];
  const auto found =
      std::ranges::find_if(arrivals, [&](const auto& arrival) { return arrival->head.transfer == transfer; });
  if (found == arrivals.end() || bytes > (*found)->bytes_left)
    throw CommError("a part of a tensor is of no message");
  return **found;
}

void Core::take_piece(int peer, const Piece& piece) {
  Arrival& arrival = arrival_of(peer, piece.transfer, piece.bytes);
  if (arrival.has_room) channels_->read_piece(peer, piece, arrival.tensors.at(piece.tensor));
  arrival.bytes_left -= piece.bytes;
  send(peer, {.kind = Kind::emptied}, {.payload = text_of(piece)});
}

/// Opens complete messages of a peer in order, so those behind one with missing pieces wait for it.
void Core::open_complete(int peer) {
  std::deque<std::shared_ptr<Arrival>>& arrivals = arrivals_[peer];
  while (!arrivals.empty() && arrivals.front()->bytes_left == 0) {
    const std::shared_ptr<Arrival> arrival = std::move(arrivals.front());
    arrivals.pop_front();
    open(peer, *arrival);
  }
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
    const TensorHead& tensor = head.tensors[i];
    const Channel channel = channel_of(tensor.way);
    if (channel != Channel::tcp) channels_->count(channel, Direction::received, arrival.tensors[i].nbytes());
    if (is_in_gpu_pieces(tensor))
      arrival.waits[i] = channels_->gpu_from(peer, tensor.route)->wait_for_pieces();
    if (tensor.way == Way::by_network)
      arrival.waits[i] = channels_->network().from(peer, tensor.route).wait_for_values();
    parcel.tensors.push_back({.values = std::move(arrival.tensors[i]),
                              .destination = tensor.destination,
                              .requires_grad = tensor.requires_grad,
                              .wait = std::move(arrival.waits[i])});
  }
  dispatch(peer, std::move(head), std::move(parcel));
}

/// Refuses a message whose tensors do not fit.
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
