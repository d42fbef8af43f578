// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/ranks.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::batches {

/// Where a program's ranks are, and what this one may use. An owner; graphs and loaders hold it. The world
/// outlives it.
class Runtime {
 public:
  /// Collective. Throws InputError, on all ranks alike, for devices that are not there.
  Runtime(const comm::World& world, const comm::TopologyOptions& options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const comm::Communicator& communicator() const { return world_.communicator(); }  ///< of all ranks
  const comm::World& world() const { return world_; }
  const comm::Topology& topology() const { return topology_; }
  const comm::Machine& machine() const { return machine_; }
  comm::Ranks ranks() const { return {&communicator(), &topology_, &machine_}; }
  Device device() const { return machine_.device(); }
  int cores() const { return cores_; }  ///< for this rank
  /// Of stages that work at the same time; one caller at a time each.
  ThreadPool& sample_pool() { return sample_pool_; }
  ThreadPool& gather_pool() { return gather_pool_; }
  ThreadPool& caller_pool() { return caller_pool_; }  ///< of the thread that calls graphs and loaders

  void close();  ///< collective; after all graphs

 private:
  const comm::World& world_;
  comm::Topology topology_;
  comm::Machine machine_;
  int cores_;
  ThreadPool sample_pool_, gather_pool_, caller_pool_;
};

}  // namespace strata::batches
