// SPDX-License-Identifier: Apache-2.0
#include "run_caches.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "planning/plan.hpp"
#include "strata/batches/routes.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/link.hpp"
#include "strata/comm/resources.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/plan/cache_plan.hpp"
#include "strata/store/halo.hpp"
#include "strata/tensor/gpu_map.hpp"
#include "strata/tensor/path_rates.hpp"

namespace strata::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds to find a node of an index that is as large as caches are, or as the graph allows.
double measure_find(NodeId num_nodes) {
  constexpr Count kMostKept = Count{1} << 20, kLooks = Count{1} << 15;
  const Count kept = std::min<Count>(kMostKept, std::max<Count>(1, num_nodes / 2));
  std::vector<NodeId> nodes(static_cast<std::size_t>(kept));
  for (Count i = 0; i < kept; ++i) nodes[static_cast<std::size_t>(i)] = i * (num_nodes / kept);
  const store::NodeIndex index(nodes, num_nodes);
  const Count apart = std::max<Count>(1, num_nodes / kLooks), looks = std::min<Count>(kLooks, num_nodes);
  double least = 0;
  volatile Count found = 0;  // keeps the look-ups
  for (int round = 0; round < 3; ++round) {
    const auto start = Clock::now();
    Count sum = 0;
    for (Count look = 0; look < looks; ++look) sum += index.find(look * apart) >= 0;
    found = found + sum;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    least = round == 0 ? seconds : std::min(least, seconds);
  }
  return least / static_cast<double>(looks);
}

double measure_device_link(const RunContext& context) {
  const auto wire = comm::make_device_exchange(context.communicator(), context.device);
  const double rate =
      comm::measure_link(*wire, context.communicator(), context.topology, context.device).bytes_per_second;
  wire->close();
  return rate;
}

/// Seconds per look-up, per useful byte of rows on GPUs and in host memory, and of a list in host memory
/// beyond those of one on a GPU; 0 where there are no GPUs.
struct Seconds {
  double host_find = 0, device_find = 0, near = 0, far = 0, host_list = 0;
  bool peers = false;  ///< GPUs of the machine reach each other
};

/// Collective over the machine.
Seconds measure_machine(const RunContext& context, const graph::Manifest& manifest) {
  Seconds seconds{.host_find = measure_find(manifest.book.num_nodes())};
  if (tensor::gpus_of(context.machine).size() == 0) return seconds;
  constexpr std::int64_t kNumber = sizeof(Count);
  const std::int64_t row_bytes = plan::feature_row_bytes(manifest, context.config.feature_format);
  const auto paths = tensor::measure_path_rates(context.machine, std::array{kNumber, row_bytes});
  const tensor::PathRates &numbers = paths[0].rates, &rows = paths[1].rates;
  seconds.device_find = 3 * static_cast<double>(kNumber) / numbers.local;  // it reads three numbers
  seconds.near = 1 / (rows.peer > 0 ? rows.peer : rows.local);
  seconds.far = 1 / std::max(rows.host, paths[1].host_both);
  seconds.host_list = static_cast<double>(kNumber) * std::max(0.0, 1 / numbers.host - 1 / numbers.local);
  seconds.peers = rows.peer > 0;
  return seconds;
}

/// Of the slowest ranks. Collective.
plan::CacheRates measure_rates(const RunContext& context, const graph::Manifest& manifest) {
  const batches::Routes routes = batches::choose_routes(context.topology, route_request(context.config));
  const double host_link = comm::measure_link(context.communicator(), context.topology).bytes_per_second;
  const bool uses_wires =
      routes.rows == batches::Transport::nccl || routes.neighbors == batches::Transport::nccl;
  const double device_link = uses_wires ? measure_device_link(context) : 0;
  const Seconds mine = measure_machine(context, manifest);
  std::array<double, 6> slowest{mine.host_find, mine.device_find, mine.near,
                                mine.far,       mine.host_list,   mine.peers ? 0.0 : 1.0};
  context.communicator().all_reduce(std::span<double>(slowest), comm::Communicator::Op::max);
  const auto [of_host, of_device, near, far, host_list, alone] = slowest;
  const auto path = [&](batches::Transport route) -> plan::CachePath {
    const bool directly = route == batches::Transport::nccl;
    return {.on_devices = directly,
            .bytes_per_second = directly ? device_link : host_link,
            .find_seconds = directly ? of_device : of_host};
  };
  return {.rows = path(routes.rows),
          .lists = path(routes.neighbors),
          .near = near > 0 ? 1 / near : 0,
          .far = far > 0 ? 1 / far : 0,
          .host_list_seconds = host_list,
          .striped = near > 0 && alone == 0};
}

}  // namespace

RunCaches plan_caches(const RunContext& context) {
  const TrainConfig& config = context.config;
  const auto parts = config.graph.parts();
  RunCaches caches{.bytes = config.halo_cache_bytes};
  if (!parts || context.topology.num_machines() == 1 || config.halo_cache_bytes != plan::kAutomatic)
    return caches;
  graph::Manifest manifest;
  context.communicator().together([&] { manifest = graph::read_manifest(*parts); });
  if (manifest.feature_cols == 0 || manifest.num_train == 0) return caches;  // refused later
  caches.costs = plan::exchange_costs(run_shape(config, context.world.size()), manifest,
                                      measure_rates(context, manifest));
  return caches;
}

}  // namespace strata::train
