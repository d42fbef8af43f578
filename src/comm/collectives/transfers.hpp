// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <vector>

#include "mpi_state.hpp"

namespace strata::comm {

/// Sends and receives of any size between pairs of ranks, all in flight at once. A transfer of 0 bytes makes
/// no message.
///
/// The memory must stay valid until wait() has returned. Pieces between two ranks arrive in the order of the
/// calls, which must be the same on both sides.
class Transfers {
 public:
  explicit Transfers(const MpiState& state) : state_(state) {}
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(const void* data, Count bytes, int peer);
  void receive(void* data, Count bytes, int peer);
  /// Returns when all transfers are done. Throws CommError if one failed or brought fewer bytes than
  /// expected.
  void wait();

 private:
  struct Piece {
    int bytes;
    int peer;
    bool incoming;
  };
  void check_piece(const Piece& piece, const MPI_Status& status) const;

  const MpiState& state_;
  std::vector<MPI_Request> requests_;
  std::vector<Piece> pieces_;
};

}  // namespace strata::comm
