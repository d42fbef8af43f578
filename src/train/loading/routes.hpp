// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/machine.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// How ranks of several machines exchange what a batch needs: Transport::nccl, from GPU to GPU, or
/// Transport::mpi, through the hosts. The sum of gradients has no choice: comm::make_all_reducer().
struct Routes {
  Transport rows = Transport::mpi;       ///< feature rows
  Transport requests = Transport::mpi;   ///< ids of rows, of batches that are padded; a host asks for others
  Transport neighbors = Transport::mpi;  ///< ids of nodes, and picks of their neighbors

  bool operator==(const Routes&) const = default;
};

/// What was asked for, and what is known of the batches. The same on all ranks.
struct RouteRequest {
  Transport rows = Transport::automatic;
  Transport neighbors = Transport::automatic;  ///< requests for rows, too
  bool padded = false;      ///< batches get one shape, so that messages from GPU to GPU have one size
  bool bounded = false;     ///< GPUs sample, and fanouts bound what a batch asks other machines for
  bool replicated = false;  ///< every machine has all neighbor lists and asks for none

  bool operator==(const RouteRequest&) const = default;
};

/// What a run with this config requests, as far as it is known before the graph and the model are there: a
/// user's model may not tolerate padding.
RouteRequest route_request(const TrainConfig& config);

/// Throws InputError if nccl is requested where some rank has no GPU of its own, or there is one machine.
void check_routes(const comm::Topology& topology, const RouteRequest& request);

/// Takes nccl wherever it is possible and mpi is not requested.
Routes choose_routes(const comm::Topology& topology, const RouteRequest& request);

}  // namespace strata::train
