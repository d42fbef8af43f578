// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <memory>
#include <source_location>
#include <string>

#include "collectives/pieces.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/comm/resources.hpp"

namespace strata::comm {

/// What a Machine stores with its communicator.
struct MachineResources {
  Resources own;         ///< of this rank
  bool on_gpus = false;  ///< all ranks of the machine compute on GPUs
};

/// What a Communicator owns, for the sources of this module.
struct MpiState {
  MPI_Comm handle = MPI_COMM_NULL;
  bool owned = true;  ///< false for MPI_COMM_WORLD, which is never freed
  int rank = 0;
  int size = 1;
  int world_rank = 0;  ///< the rank that messages name
  std::string host;
  Count piece_bytes = kPieceBytes;
  std::shared_ptr<const MachineResources> resources = {};  ///< set in a Machine's communicator

  std::string who() const;  ///< "rank 3, host gpu-07"
};

struct Communicator::State : MpiState {};

/// Opens a Communicator to the sources of this module.
struct Internals {
  /// Throws CommError if the communicator was closed or moved from.
  static const MpiState& of(const Communicator& communicator);
  static MpiState& state(Communicator& communicator) { return *communicator.state_; }
  /// Takes over `handle`, and makes its errors return. World rank, host and piece size come from `parent`.
  static Communicator adopt(MPI_Comm handle, const MpiState& parent);
  /// A communicator of the ranks that share memory with this one, in order of rank. Collective.
  static Communicator split_shared(const Communicator& communicator);
};

/// Throws CommError with MPI's text, rank and host unless `code` is MPI_SUCCESS.
void check(int code, const char* call, const MpiState& state,
           std::source_location where = std::source_location::current());

}  // namespace strata::comm
