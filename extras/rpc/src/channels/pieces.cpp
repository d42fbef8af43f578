// SPDX-License-Identifier: Apache-2.0
#include "channels/pieces.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::rpc {

PieceSender::Sending& PieceSender::at(const Path& path) {
  const auto [found, is_new] = paths_.try_emplace(path);
  if (is_new) {
    found->second.free_slots.resize(Channels::kSlots);
    std::iota(found->second.free_slots.begin(), found->second.free_slots.end(), 0U);
  }
  return found->second;
}

void PieceSender::send(const Path& path, Transfer transfer) {
  at(path).waiting.push_back(std::move(transfer));
  fill(path);
}

void PieceSender::emptied(int peer, const Piece& piece) {
  const Path path{.peer = peer, .gpu_route = piece.gpu_route};
  if (piece.slot >= Channels::kSlots || !paths_.contains(path))
    throw CommError("a slot was emptied that does not exist");
  at(path).free_slots.push_back(piece.slot);
  fill(path);
}

void PieceSender::fill(const Path& path) {
  Sending& state = at(path);
  while (!state.waiting.empty() && !state.free_slots.empty()) {
    Transfer& transfer = state.waiting.front();
    const auto& [place, part] = *transfer.parts.begin();
    const at::Tensor& tensor = part.values;
    Piece piece{.transfer = transfer.number,
                .tensor = place,
                .slot = state.free_slots.back(),
                .offset = transfer.offset,
                .gpu_route = path.gpu_route};
    piece.bytes = std::min<std::uint64_t>(channels_.piece_bytes(path.peer, piece, tensor.nbytes()),
                                          tensor.nbytes() - transfer.offset);
    state.free_slots.pop_back();
    channels_.send_piece(path.peer, piece, tensor, part.made.get());
    transfer.offset += piece.bytes;
    if (transfer.offset == tensor.nbytes()) {
      transfer.parts.erase(transfer.parts.begin());
      transfer.offset = 0;
    }
    if (transfer.parts.empty()) state.waiting.pop_front();
    announce_(path.peer, piece);
  }
}

}  // namespace strata::rpc
