// SPDX-License-Identifier: Apache-2.0
#include "mpi_state.hpp"

#include <fmt/format.h>

#include "strata/util/error.hpp"

namespace strata::comm {

std::string MpiState::who() const { return fmt::format("rank {}, host {}", world_rank, host); }

void check(int code, const char* call, const MpiState& state, std::source_location where) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format("{} failed: {} ({})", call, text, state.who()), {}, where);
}

const MpiState& Internals::of(const Communicator& communicator) {
  if (!communicator.state_ || communicator.state_->handle == MPI_COMM_NULL) {
    throw CommError("a communicator was used after it was closed or moved from");
  }
  return *communicator.state_;
}

Communicator Internals::adopt(MPI_Comm handle, const MpiState& parent) {
  auto state = std::make_unique<Communicator::State>();
  static_cast<MpiState&>(*state) = parent;
  state->handle = handle;
  state->owned = true;
  check(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", parent);
  check(MPI_Comm_rank(handle, &state->rank), "MPI_Comm_rank", parent);
  check(MPI_Comm_size(handle, &state->size), "MPI_Comm_size", parent);
  return Communicator(std::move(state));
}

Communicator Internals::split_shared(const Communicator& communicator) {
  const MpiState& state = of(communicator);
  MPI_Comm handle = MPI_COMM_NULL;
  check(MPI_Comm_split_type(state.handle, MPI_COMM_TYPE_SHARED, state.rank, MPI_INFO_NULL, &handle),
        "MPI_Comm_split_type", state);
  return adopt(handle, state);
}

void set_piece_bytes(Communicator& communicator, Count bytes) {
  if (bytes <= 0 || bytes % 8 != 0 || bytes > kPieceBytes) {
    throw CommError(
        fmt::format("a piece of {} bytes is not a positive multiple of 8 up to {}", bytes, kPieceBytes));
  }
  Internals::state(communicator).piece_bytes = bytes;
}

}  // namespace strata::comm
