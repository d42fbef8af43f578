// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include <fmt/format.h>

#include <utility>

#include "strata/util/error.hpp"

namespace strata::comm {

const GroupState& Internals::of(const Communicator& communicator) {
  if (!communicator.state_ || !communicator.state_->backend) {
    throw CommError("a communicator was used after it was closed or moved from");
  }
  return *communicator.state_;
}

Communicator Internals::adopt(std::shared_ptr<Backend> backend, Count piece_bytes) {
  auto state = std::make_unique<Communicator::State>();
  state->rank = backend->rank();
  state->size = backend->size();
  state->backend = std::move(backend);
  state->piece_bytes = piece_bytes;
  return Communicator(std::move(state));
}

Communicator Internals::split_by_host(const Communicator& communicator) {
  const GroupState& state = of(communicator);
  return adopt(state.backend->split_by_host(), state.piece_bytes);
}

void set_piece_bytes(Communicator& communicator, Count bytes) {
  if (bytes <= 0 || bytes % 8 != 0 || bytes > kPieceBytes) {
    throw CommError(
        fmt::format("a piece of {} bytes is not a positive multiple of 8 up to {}", bytes, kPieceBytes));
  }
  Internals::state(communicator).piece_bytes = bytes;
}

}  // namespace strata::comm
