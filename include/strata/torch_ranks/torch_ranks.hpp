// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "strata/comm/backend.hpp"

namespace strata::torch_ranks {

struct Options {
  std::chrono::milliseconds patience{30000};  ///< longest wait for the other ranks to come
  /// Whether this process ends when a rank aborts or is gone. Else the calls that need that rank throw
  /// CommError, for a library in somebody else's program.
  bool ends_with_others = true;
};

/// All ranks that torchrun or torch.multiprocessing.spawn started, over torch.distributed's own TCPStore and
/// ProcessGroupGloo; MPI is not needed. Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and checks
/// LOCAL_RANK and LOCAL_WORLD_SIZE if they are set. A world of one rank needs no network.
///
/// Collective over all ranks. Throws InputError if a variable is missing or wrong, if ranks disagree on their
/// number, if two have the same rank, or if the port is in use; CommError that names the ranks that did not
/// come. A world may follow an earlier one that was closed.
///
/// Ranks find each other at MASTER_ADDR:MASTER_PORT, where rank 0 (or torchrun) keeps a TCPStore, which
/// torch.distributed in the same process may share. Messages between hosts go over the interface that
/// GLOO_SOCKET_IFNAME names, else over that of the host's name.
///
/// Two threads watch the run. If a rank calls abort() or ends without closing its world, they end the
/// processes of the others, within about a second.
std::shared_ptr<comm::Backend> backend(const Options& options = {});

/// The place where ranks without a launcher meet; a value that one rank sends to the others.
struct MeetingPlace {
  std::string host;  ///< the name of the host whose process keeps the store
  std::uint16_t port = 0;
  std::int64_t number = 0;  ///< among the places of this store
};
/// A new place in a store that this process opens on a free port, once, and keeps until it ends. One world
/// can meet there.
MeetingPlace open_meeting_place();
/// The backend of `size` ranks that meet there; the one that opened the place is rank 0. Otherwise as
/// backend().
std::shared_ptr<comm::Backend> backend_at(const MeetingPlace& place, int rank, int size,
                                          const Options& options = {});

/// The backend for whatever started this process: MPI, torch.distributed, or nothing (one rank on its own).
///
///     const comm::World world(torch_ranks::backend_of_launcher(&argc, &argv));
std::shared_ptr<comm::Backend> backend_of_launcher(int* argc = nullptr, char*** argv = nullptr);

}  // namespace strata::torch_ranks
