// SPDX-License-Identifier: Apache-2.0
#include "run_context.hpp"

#include <chrono>

#include "strata/comm/machine.hpp"
#include "strata/train/config.hpp"
#include "strata/util/log.hpp"
#include "tuning/device_mix.hpp"
#include "tuning/no_effect.hpp"
#include "type_choices.hpp"

namespace strata::train {
namespace {

/// Finds the topology before anything is loaded.
comm::Topology find_topology(const TrainConfig& config, const comm::World& world) {
  comm::Topology topology = comm::discover(world.communicator(), config.topology);
  check_device_options(config, topology);
  if (world.rank() > 0) return topology;
  if (is_mixed(topology)) spdlog::warn("{}", mix_warning(topology));
  for (const std::string& line : options_without_effect(config, topology)) spdlog::warn("{}", line);
  return topology;
}

comm::Watchdog::Options watchdog_options(const TrainConfig& config, const StopListener& stop, int ranks) {
  comm::Watchdog::Options options;
  options.patience = std::chrono::seconds(config.watchdog_seconds);
  options.stop_requested = [&stop] { return stop.requested(); };
  options.advice = doctor_advice(ranks, config.graph);
  return options;
}

}  // namespace

RunContext::RunContext(const TrainConfig& c, const comm::World& w, StopListener& stop_listener,
                       const Task& what)
    : config(c),
      world(w),
      stop(stop_listener),
      task(what),
      topology(find_topology(c, w)),
      machine(w.communicator(), topology),
      device(machine.device()),
      watchdog(w, watchdog_options(c, stop_listener, w.size())),
      cores(comm::resources_of(machine).cores),
      sample_pool(cores),
      gather_pool(cores),
      global_batch(c.global_batch_size > 0 ? c.global_batch_size : c.batch_size * w.size()) {}

void RunContext::close() {
  machine.close();
  watchdog.close();
}

Count RunContext::seeds_per_rank() const {
  return config.global_batch_size > 0 ? config.global_batch_size / world.size() + 1 : config.batch_size;
}

sampling::SamplerOptions RunContext::neighbor_choice(const graph::GraphTypes& types) const {
  sampling::SamplerOptions options{.fanouts = {},
                                   .method = config.sampling_method(),
                                   .replace = config.replace,
                                   .layer_dependent = config.is_layer_dependent()};
  choose_fanouts(config, types, options);
  return options;
}

}  // namespace strata::train
