// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/machine.hpp"
#include "strata/comm/watchdog.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/threads.hpp"

namespace strata::train {

/// The ranks, devices and options of a run: what all of its ranks agree on before anything is loaded, and
/// what this rank may use. An owner; the config, the world, the listener and the task outlive it.
struct RunContext {
  /// Collective. Throws InputError, on all ranks alike, for devices that contradict the options.
  RunContext(const TrainConfig& config, const comm::World& world, StopListener& stop, const Task& task);
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;
  void close();  ///< collective

  bool first_rank() const { return world.rank() == 0; }
  void alive(const char* what) { watchdog.alive(what); }  ///< reports progress to the watchdog
  const comm::Communicator& communicator() const { return world.communicator(); }  ///< of all ranks
  comm::Ranks ranks() const { return {&communicator(), &topology, &machine}; }
  Count seeds_per_rank() const;  ///< per step
  /// How neighbors are chosen in a graph of these types; nothing else is set.
  sampling::SamplerOptions neighbor_choice(const graph::GraphTypes& types) const;

  const TrainConfig& config;
  const comm::World& world;
  StopListener& stop;
  const Task& task;
  comm::Topology topology;
  comm::Machine machine;
  Device device;
  comm::Watchdog watchdog;
  int cores;  ///< for this rank
  ThreadPool sample_pool, gather_pool;
  Count global_batch;  ///< seeds of a step over all ranks
};

}  // namespace strata::train
