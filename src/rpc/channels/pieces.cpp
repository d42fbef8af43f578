// SPDX-License-Identifier: Apache-2.0
#include "channels/pieces.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::rpc {

PieceSender::Peer& PieceSender::at(int peer) {
  const auto [found, is_new] = peers_.try_emplace(peer);
  if (is_new) {
    found->second.free_slots.resize(SharedZones::kSlots);
    std::iota(found->second.free_slots.begin(), found->second.free_slots.end(), 0U);
  }
  return found->second;
}

void PieceSender::send(int peer, Transfer transfer) {
  at(peer).waiting.push_back(std::move(transfer));
  fill(peer);
}

void PieceSender::emptied(int peer, std::uint32_t slot) {
  if (slot >= SharedZones::kSlots) throw CommError("a slot was emptied that does not exist");
  at(peer).free_slots.push_back(slot);
  fill(peer);
}

void PieceSender::fill(int peer) {
  Peer& state = at(peer);
  while (!state.waiting.empty() && !state.free_slots.empty()) {
    Transfer& transfer = state.waiting.front();
    const auto& [place, tensor] = *transfer.tensors.begin();
    const Piece piece{
        .transfer = transfer.number,
        .tensor = place,
        .slot = state.free_slots.back(),
        .offset = transfer.offset,
        .bytes = std::min<std::uint64_t>(channels_.piece_bytes(), tensor.nbytes() - transfer.offset)};
    state.free_slots.pop_back();
    std::memcpy(channels_.slot_to(peer, piece.slot).data(),
                static_cast<const std::byte*>(tensor.const_data_ptr()) + piece.offset, piece.bytes);
    transfer.offset += piece.bytes;
    if (transfer.offset == tensor.nbytes()) {
      transfer.tensors.erase(transfer.tensors.begin());
      transfer.offset = 0;
    }
    if (transfer.tensors.empty()) state.waiting.pop_front();
    tell_(peer, piece);
  }
}

}  // namespace strata::rpc
