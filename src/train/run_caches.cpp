// SPDX-License-Identifier: Apache-2.0
#include "run_caches.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "loading/sampler_choice.hpp"
#include "planning/memory_plan.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/link.hpp"
#include "strata/comm/resources.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/placement/path_rates.hpp"
#include "strata/store/halo.hpp"
#include "strata/tensor/gpu_map.hpp"

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

/// Which exchanges go from GPU to GPU.
struct OnDevices {
  bool rows = false, lists = false;
};

OnDevices on_devices(const RunContext& context) {
  const TrainConfig& config = context.config;
  const bool possible = comm::can_exchange_on_devices(context.topology, context.device);
  return {.rows = possible && config.row_exchange != Transport::mpi,
          .lists = possible && config.neighbor_exchange != Transport::mpi && config.own_model.empty() &&
                   config.sampler_device != comm::TopologyOptions::Compute::cpu &&
                   bounds_requests(context.neighbor_choice())};
}

double measure_device_link(const RunContext& context) {
  const auto wire = comm::make_device_exchange(context.communicator(), context.device);
  const double rate =
      comm::measure_link(*wire, context.communicator(), context.topology, context.device).bytes_per_second;
  wire->close();
  return rate;
}

/// Seconds per look-up, and per useful byte of rows on GPUs and in host memory; 0 where there are no GPUs.
struct Seconds {
  double host_find = 0, device_find = 0, near = 0, far = 0;
};

/// Collective over the machine.
Seconds measure_machine(const RunContext& context, const graph::Manifest& manifest) {
  Seconds seconds{.host_find = measure_find(manifest.book.num_nodes())};
  if (tensor::gpus_of(context.machine).size() == 0) return seconds;
  constexpr std::int64_t kNumber = sizeof(Count);
  const std::int64_t row_bytes = store::feature_row_bytes(manifest, context.config.feature_format);
  const auto paths = placement::measure_path_rates(context.machine, std::array{kNumber, row_bytes},
                                                   {.threads = context.config.host_threads});
  const placement::PathRates &numbers = paths[0].rates, &rows = paths[1].rates;
  seconds.device_find = 3 * static_cast<double>(kNumber) / numbers.local;  // it reads three numbers
  seconds.near = 1 / (rows.peer > 0 ? rows.peer : rows.local);
  seconds.far = 1 / std::max(rows.host, paths[1].host_both);
  return seconds;
}

/// Of the slowest ranks. Collective.
CacheRates measure_rates(const RunContext& context, const graph::Manifest& manifest) {
  const OnDevices devices = on_devices(context);
  const double host_link = comm::measure_link(context.communicator(), context.topology).bytes_per_second;
  const double device_link = devices.rows || devices.lists ? measure_device_link(context) : 0;
  const Seconds mine = measure_machine(context, manifest);
  std::array<double, 4> slowest{mine.host_find, mine.device_find, mine.near, mine.far};
  context.communicator().all_reduce(std::span<double>(slowest), comm::Communicator::Op::max);
  const double of_host = slowest[0], of_device = slowest[1], near = slowest[2], far = slowest[3];
  const auto path = [&](bool directly) -> CachePath {
    return {.on_devices = directly,
            .bytes_per_second = directly ? device_link : host_link,
            .find_seconds = directly ? of_device : of_host};
  };
  return {.rows = path(devices.rows),
          .lists = path(devices.lists),
          .near = near > 0 ? 1 / near : 0,
          .far = far > 0 ? 1 / far : 0};
}

/// The first machine, with the memory that is free now.
Cluster cluster_of(const RunContext& context) {
  Cluster cluster;
  cluster.machines = context.topology.num_machines();
  cluster.ranks = context.machine.size();
  cluster.host_memory = comm::free_host_memory(context.machine).share_bytes;
  if (tensor::gpus_of(context.machine).size() == 0) return cluster;
  cluster.gpus = context.machine.size();
  cluster.gpu_memory = comm::free_gpu_bytes_per_rank(context.machine);
  return cluster;
}

std::vector<store::CacheDecision> decide(const RunContext& context, const graph::PartsOrigin& parts,
                                         const graph::Manifest& manifest, const CacheRates& rates,
                                         const Cluster& cluster) {
  const TrainConfig& config = context.config;
  const BatchProfile profile = profile_batches(parts, manifest,
                                               {.machines = cluster.machines,
                                                .ranks_per_machine = cluster.ranks_per_machine(),
                                                .global_batch = context.global_batch,
                                                .fanouts = config.fanouts,
                                                .seed = config.seed,
                                                .train_edges_only = config.inductive,
                                                .batches = 2,
                                                .time_limit = std::chrono::milliseconds(1000)});
  return plan_memory(config, manifest, cluster, profile, rates).caches;
}

}  // namespace

RunCaches caches_for(const std::vector<store::CacheDecision>& decisions, std::int64_t row_bytes) {
  RunCaches caches{.decisions = decisions, .bytes = store::LoadOptions::kAutomatic};
  if (decisions.empty()) return caches;
  const store::CacheDecision& rows = decisions.front();
  caches.lists = decisions.size() > 1 && decisions.back().option > 0;
  if (rows.option == 0) {
    caches.bytes = 0;
  } else if (rows.chosen.kept < rows.largest.kept) {
    // Lists get a quarter of what is given.
    const std::int64_t bytes = rows.chosen.kept * row_bytes;
    caches.bytes = caches.lists ? bytes / 3 * 4 : bytes;
  }
  return caches;
}

RunCaches plan_caches(const RunContext& context) {
  const TrainConfig& config = context.config;
  const auto parts = config.graph.parts();
  RunCaches caches{.bytes = config.halo_cache_bytes};
  if (!parts || context.topology.num_machines() == 1 ||
      config.halo_cache_bytes != store::LoadOptions::kAutomatic)
    return caches;
  graph::Manifest manifest;
  context.communicator().together([&] { manifest = graph::read_manifest(*parts); });
  if (manifest.feature_cols == 0 || manifest.num_train == 0) return caches;  // refused later
  const CacheRates rates = measure_rates(context, manifest);
  const Cluster cluster = cluster_of(context);
  context.communicator().together([&] {
    if (!context.first_rank()) return;
    const std::int64_t row_bytes = store::feature_row_bytes(manifest, context.config.feature_format);
    caches = caches_for(decide(context, *parts, manifest, rates, cluster), row_bytes);
    for (const store::CacheDecision& decision : caches.decisions)
      spdlog::info("{}", store::sentence(decision));
  });
  std::array<std::int64_t, 2> chosen{caches.bytes, caches.lists};
  context.communicator().broadcast(chosen.data(), sizeof(chosen), 0);
  caches.bytes = chosen[0];
  caches.lists = chosen[1] != 0;
  return caches;
}

}  // namespace strata::train
