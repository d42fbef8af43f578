// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/util/text.hpp"

namespace strata::batches {

/// How machines exchange.
enum class Transport : std::uint8_t {
  automatic,  ///< what is known to be good
  nccl,       ///< required: else the run is refused
  mpi,
};

/// How ranks of several machines exchange what a batch needs: Transport::nccl, from GPU to GPU, or
/// Transport::mpi, through the hosts. The sum of gradients has no choice: comm::make_all_reducer().
struct Routes {
  Transport rows = Transport::mpi;       ///< feature rows
  Transport requests = Transport::mpi;   ///< ids of rows; nccl only for padded batches
  Transport neighbors = Transport::mpi;  ///< ids of nodes, and picks of their neighbors

  bool operator==(const Routes&) const = default;
};

/// What was asked for, and what is known of the batches. The same on all ranks.
struct RouteRequest {
  Transport exchange = Transport::automatic;
  bool padded = false;      ///< batches get one shape, so that messages from GPU to GPU have one size
  bool bounded = false;     ///< GPUs sample, and fanouts bound what a batch asks other machines for
  bool replicated = false;  ///< every machine has all neighbor lists and asks for none

  bool operator==(const RouteRequest&) const = default;
};

/// Whether what a batch asks other machines for is bounded by its fanouts, so that messages can have one size
/// for all batches; see sampling::PaddedShape.
bool bounds_requests(const sampling::SamplerOptions& options);

/// Throws InputError if nccl is requested where some rank has no GPU of its own, or there is one machine.
void check_routes(const comm::Topology& topology, const RouteRequest& request);

/// Takes nccl wherever it is possible and mpi is not requested.
Routes choose_routes(const comm::Topology& topology, const RouteRequest& request);

}  // namespace strata::batches

namespace strata {

template <>
inline constexpr auto enum_names<batches::Transport> =
    std::to_array<EnumName<batches::Transport>>({{batches::Transport::automatic, "auto"},
                                                 {batches::Transport::nccl, "nccl"},
                                                 {batches::Transport::mpi, "mpi"}});

}  // namespace strata
