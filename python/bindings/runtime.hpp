// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/backend.hpp"
#include "strata/comm/farewell.hpp"
#include "strata/loader/runtime.hpp"

namespace strata::python {

/// What a process has once: its place among the ranks, and what it may use.
struct Process {
  Process(std::shared_ptr<comm::Backend> ranks, const comm::TopologyOptions& options)
      : backend(ranks),
        world(std::make_unique<comm::World>(std::move(ranks))),
        farewell(std::make_unique<comm::Farewell>(world->communicator())),
        runtime(std::make_shared<loader::Runtime>(*world, options)) {}

  Device device() const { return runtime->device(); }

  void close() {
    runtime->close();
    farewell.reset();
    world.reset();
    backend.reset();
  }

  std::shared_ptr<comm::Backend> backend;  ///< the world's
  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::Farewell> farewell;  ///< of ranks whose programs end
  std::shared_ptr<loader::Runtime> runtime;
};

}  // namespace strata::python
