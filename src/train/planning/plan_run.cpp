// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planning/plan.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/train/planning.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
#include "tuning/device_mix.hpp"

namespace strata::train {
namespace {

/// Throws InputError for options that contradict the cluster, as a run on it would.
void check_cluster(const TrainConfig& config, const plan::Cluster& cluster) {
  using Compute = comm::TopologyOptions::Compute;
  const int ranks = cluster.ranks_per_machine(), asked = config.topology.ranks_per_machine;
  if (asked > 0 && asked != ranks)
    throw InputError(fmt::format("--ranks-per-machine {} contradicts --cluster, whose machines have {}",
                                 asked, counted(ranks, "rank")),
                     "Leave --ranks-per-machine out: gpus or ranks of --cluster say how many there are.");
  const Compute device = config.topology.compute;
  if (device != Compute::automatic && (device == Compute::cuda) != cluster.has_gpus())
    throw InputError(
        fmt::format("--device {} contradicts --cluster, whose machines have {}", enum_name(device),
                    cluster.has_gpus() ? counted(cluster.gpus, "GPU") : "no GPUs"),
        "Leave --device out: gpus of --cluster says what ranks compute on.");
  check_device_options(config, topology_of(cluster));
}

/// The machines of this run, as far as a plan knows machines: all like the first one.
plan::Cluster present_cluster(const TrainConfig& config, const comm::World& world,
                              const std::optional<MeasuredLink>& link) {
  const comm::Topology topology = comm::discover(world.communicator(), config.topology);
  check_device_options(config, topology);
  comm::Machine machine(world.communicator(), topology);
  plan::Cluster cluster;
  cluster.machines = topology.num_machines();
  cluster.ranks = machine.size();
  cluster.host_memory = comm::free_host_memory(machine).share_bytes;
  if (comm::computes_on_gpus(machine)) {
    cluster.gpus = machine.size();
    cluster.gpu_memory = static_cast<std::int64_t>(cuda::device_memory(machine.device().index).free_bytes);
  }
  machine.close();
  if (link && !cluster.has_gpus()) {
    cluster.links = 1;
    cluster.link.bytes_per_second = link->bytes_per_second;
    cluster.link.latency_seconds = link->latency_seconds;
  }
  return cluster;
}

}  // namespace

RunPlan plan_run(const TrainConfig& config, const std::string& cluster_text, const comm::World& world,
                 const std::optional<MeasuredLink>& link) {
  world.communicator().together([&] { validate_plan(config); });
  plan::Cluster cluster;
  if (cluster_text.empty())
    cluster = present_cluster(config, world, link);
  else
    world.communicator().together([&] {
      cluster = plan::parse_cluster(cluster_text);
      check_cluster(config, cluster);
    });
  RunPlan texts;
  world.communicator().together([&] {
    if (world.rank() != 0) return;
    const StepPlan plan = make_plan(config, cluster);
    texts = {.tables = plan_text(config, plan), .record = plan_record(config, plan).dump() + "\n"};
  });
  return texts;
}

}  // namespace strata::train
