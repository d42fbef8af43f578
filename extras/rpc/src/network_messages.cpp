// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core.hpp"
#include "strata/util/error.hpp"
#include "wire.hpp"

/// This file handles tensors that come behind their message on a network route.
namespace strata::rpc {

void Core::connect_network() {
  using End = comm::DevicePipe::End;
  using Direction = Channels::Direction;
  const auto outlet_to = [this](int peer, End own) -> RouteOutlet {
    const Direction direction = own == End::sends ? Direction::sent : Direction::received;
    return {
        .send_note =
            [this, peer](const RouteNote& note) {
              send(peer, {.kind = Kind::route_note}, {.payload = text_of(note)});
            },
        .send_piece = [this, peer](const NetworkPiece& piece,
                                   StagedBytes bytes) { send_piece(peer, piece, std::move(bytes)); },
        .arrived =
            [this, peer](std::uint64_t transfer, std::size_t bytes) {
              links_->post([this, peer, transfer, bytes] { take_arrived(peer, transfer, bytes); });
            },
        .count = [this, direction](std::size_t bytes) { channels_->count(Channel::nccl, direction, bytes); }};
  };
  channels_->connect([this](int rank) { return describe(rank); }, outlet_to, setup_.busy_poll);
}

void Core::send_piece(int to, const NetworkPiece& piece, StagedBytes bytes) {
  MessageLinks::Message message{.head = text_of(Head{.kind = Kind::network_piece, .payload = text_of(piece)}),
                                .bulk = {bytes.bytes},
                                .memory = std::move(bytes.memory)};
  channels_->count(Channel::tcp, Channels::Direction::sent, message.head.size() + piece.bytes);
  links_->send(to, std::move(message));
}

void Core::take_network_piece(int peer, const Arrival& message) {
  const auto piece = parse<NetworkPiece>(message.head.payload);
  channels_->count(Channel::tcp, Channels::Direction::received, piece.bytes);
  Arrival& arrival = arrival_of(peer, piece.transfer, piece.bytes);
  if (!message.has_room) arrival.has_room = false;
  if (arrival.has_room) {
    if (arrival.head.tensors.at(piece.tensor).way != TensorHead::Way::by_network)
      throw CommError("a piece belongs to a tensor that comes another way");
    channels_->network()
        .from(peer, piece.route)
        .take_piece(piece, message.tensors.at(0), arrival.tensors.at(piece.tensor));
  }
  arrival.bytes_left -= piece.bytes;
}

void Core::take_route_note(int peer, const RouteNote& note) {
  if (note.step == RouteNote::Step::offer) return take_offer(peer, note);
  channels_->network().heard(peer, note);
}

/// Takes an offer. Memory that NCCL writes to is kept until it is done, even if the peer is lost.
void Core::take_offer(int peer, const RouteNote& offer) {
  Arrival& arrival = arrival_of(peer, offer.transfer, 0);
  NetworkReceiver& receiver = channels_->network().from(peer, offer.route);
  std::vector<at::Tensor> tensors;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < arrival.head.tensors.size(); ++i) {
    const TensorHead& head = arrival.head.tensors[i];
    if (head.way != TensorHead::Way::by_network || head.route != offer.route) continue;
    if (arrival.has_room) tensors.push_back(arrival.tensors[i]);
    total += bytes_of(head);
  }
  if (arrival.has_room) return receiver.receive(offer.transfer, std::move(tensors));
  receiver.refuse(offer.transfer);
  arrival.bytes_left -= total;
}

void Core::take_arrived(int peer, std::uint64_t transfer, std::uint64_t bytes) {
  try {
    if (arrivals_[peer].empty()) return;  // the peer was lost meanwhile
    arrival_of(peer, transfer, bytes).bytes_left -= bytes;
    open_complete(peer);
  } catch (const std::exception& error) {
    links_->give_up(peer, unreadable(peer, error));
  }
}

}  // namespace strata::rpc
