// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/routes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strata/comm/machine.hpp"
#include "strata/util/error.hpp"

namespace strata::batches {
namespace {

bool gpus_can_exchange(const comm::Topology& topology) {
  return topology.num_machines() > 1 && topology.gpu_per_rank;
}

}  // namespace

bool bounds_requests(const sampling::SamplerOptions& options) {
  return options.method != sampling::Method::labor && !options.device_chooser.narrow &&
         std::ranges::all_of(options.fanouts, [](int fanout) { return fanout >= 0; });
}

void check_routes(const comm::Topology& topology, const RouteRequest& request) {
  if (request.exchange != Transport::nccl || gpus_can_exchange(topology)) return;
  const std::string why =
      topology.num_machines() == 1
          ? "the run has one machine"
          : fmt::format("{} of {} ranks compute on GPUs, and every rank needs one that no other rank has",
                        comm::ranks_on(topology, Device::Kind::cuda).size(), topology.ranks.size());
  throw InputError(fmt::format("--exchange nccl is not possible here: {}", why),
                   "Give --exchange auto, which takes nccl where it is possible, or leave it out.");
}

Routes choose_routes(const comm::Topology& topology, const RouteRequest& request) {
  const auto route = [](bool on_devices) { return on_devices ? Transport::nccl : Transport::mpi; };
  const bool rows = gpus_can_exchange(topology) && request.exchange != Transport::mpi,
             asks = rows && request.padded;
  return {.rows = route(rows),
          .requests = route(asks),
          .neighbors = route(asks && request.bounded && !request.replicated)};
}

}  // namespace strata::batches
