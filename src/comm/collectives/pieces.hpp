// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::comm {

/// The most bytes of one call of a backend: below what an int of MPI can count.
inline constexpr Count kPieceBytes = Count{1} << 30;

/// Lets tests make pieces small, so that even a few bytes are sent in many pieces. Communicators made from
/// this one inherit the size. REQUIRES: `bytes` is the same on all ranks, a positive multiple of 8, and at
/// most kPieceBytes.
void set_piece_bytes(Communicator& communicator, Count bytes);

}  // namespace strata::comm
