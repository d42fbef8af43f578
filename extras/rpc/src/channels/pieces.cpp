// SPDX-License-Identifier: Apache-2.0
#include "channels/pieces.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::rpc {

PieceSender::Sending& PieceSender::at(const Lane& lane) {
  const auto [found, is_new] = lanes_.try_emplace(lane);
  if (is_new) {
    found->second.free_slots.resize(Channels::kSlots);
    std::iota(found->second.free_slots.begin(), found->second.free_slots.end(), 0U);
  }
  return found->second;
}

void PieceSender::send(const Lane& lane, Transfer transfer) {
  at(lane).waiting.push_back(std::move(transfer));
  fill(lane);
}

void PieceSender::emptied(int peer, const Piece& piece) {
  const Lane lane{.peer = peer, .gpu_route = piece.gpu_route};
  if (piece.slot >= Channels::kSlots || !lanes_.contains(lane))
    throw CommError("a slot was emptied that does not exist");
  at(lane).free_slots.push_back(piece.slot);
  fill(lane);
}

void PieceSender::fill(const Lane& lane) {
  Sending& state = at(lane);
  while (!state.waiting.empty() && !state.free_slots.empty()) {
    Transfer& transfer = state.waiting.front();
    const auto& [place, part] = *transfer.parts.begin();
    const at::Tensor& tensor = part.values;
    Piece piece{.transfer = transfer.number,
                .tensor = place,
                .slot = state.free_slots.back(),
                .offset = transfer.offset,
                .gpu_route = lane.gpu_route};
    piece.bytes = std::min<std::uint64_t>(channels_.piece_bytes(lane.peer, piece, tensor.nbytes()),
                                          tensor.nbytes() - transfer.offset);
    state.free_slots.pop_back();
    channels_.send_piece(lane.peer, piece, tensor, part.made.get());
    transfer.offset += piece.bytes;
    if (transfer.offset == tensor.nbytes()) {
      transfer.parts.erase(transfer.parts.begin());
      transfer.offset = 0;
    }
    if (transfer.parts.empty()) state.waiting.pop_front();
    announce_(lane.peer, piece);
  }
}

}  // namespace strata::rpc
