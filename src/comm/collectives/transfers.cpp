// SPDX-License-Identifier: Apache-2.0
#include "collectives/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

constexpr int kTag = 1;

}  // namespace

void Transfers::send(const void* data, Count bytes, int peer) {
  for (Count begin = 0; begin < bytes; begin += state_.piece_bytes) {
    const int piece = static_cast<int>(std::min(state_.piece_bytes, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(static_cast<const char*>(data) + begin, piece, MPI_BYTE, peer, kTag, state_.handle,
                    &request),
          "MPI_Isend", state_);
    requests_.push_back(request);
    pieces_.push_back({.bytes = piece, .peer = peer, .incoming = false});
  }
}

void Transfers::receive(void* data, Count bytes, int peer) {
  for (Count begin = 0; begin < bytes; begin += state_.piece_bytes) {
    const int piece = static_cast<int>(std::min(state_.piece_bytes, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(static_cast<char*>(data) + begin, piece, MPI_BYTE, peer, kTag, state_.handle, &request),
          "MPI_Irecv", state_);
    requests_.push_back(request);
    pieces_.push_back({.bytes = piece, .peer = peer, .incoming = true});
  }
}

void Transfers::wait() {
  std::vector<MPI_Status> statuses(requests_.size());
  const int code = MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (const MPI_Status& status : statuses) {
      if (status.MPI_ERROR != MPI_ERR_PENDING) check(status.MPI_ERROR, "MPI_Waitall", state_);
    }
  }
  check(code, "MPI_Waitall", state_);
  for (std::size_t i = 0; i < pieces_.size(); ++i) check_piece(pieces_[i], statuses[i]);
  requests_.clear();
  pieces_.clear();
}

void Transfers::check_piece(const Piece& piece, const MPI_Status& status) const {
  if (!piece.incoming) return;
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", state_);
  if (bytes != piece.bytes) {
    throw CommError(fmt::format("rank {} of the communicator sent {} bytes where {} were expected ({})",
                                piece.peer, bytes, piece.bytes, state_.who()));
  }
}

}  // namespace strata::comm
