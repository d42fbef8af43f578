// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "collectives/pieces.hpp"
#include "strata/comm/backend.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/comm/machine.hpp"

namespace strata::comm {

/// What a Machine stores with its communicator.
struct MachineResources {
  Resources own;         ///< of this rank
  bool on_gpus = false;  ///< all ranks of the machine compute on GPUs
};

/// What a Communicator owns, for the sources of this module.
struct GroupState {
  std::shared_ptr<Backend> backend;  ///< null once closed
  int rank = 0;
  int size = 1;
  Count piece_bytes = kPieceBytes;
  std::shared_ptr<const MachineResources> resources = {};  ///< set in a Machine's communicator

  std::string who() const { return backend->self().who(); }
};

struct Communicator::State : GroupState {};

/// Opens a Communicator to the sources of this module.
struct Internals {
  /// Throws CommError if the communicator was closed or moved from.
  static const GroupState& of(const Communicator& communicator);
  static GroupState& state(Communicator& communicator) { return *communicator.state_; }
  static Communicator adopt(std::shared_ptr<Backend> backend, Count piece_bytes);
  /// A communicator of the ranks that share memory with this one, in order of rank. Collective.
  static Communicator split_by_host(const Communicator& communicator);
};

}  // namespace strata::comm
