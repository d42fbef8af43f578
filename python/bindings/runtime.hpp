// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/comm/backend.hpp"
#include "strata/loader/runtime.hpp"

namespace strata::python {

/// What a process has once: its place among the ranks, and what it may use.
struct Process {
  Process(std::shared_ptr<comm::Backend> ranks, const comm::TopologyOptions& options)
      : backend(ranks),
        world(std::make_unique<comm::World>(std::move(ranks))),
        runtime(std::make_shared<loader::Runtime>(*world, options)) {}

  void close() {
    runtime->close();
    world.reset();
    backend.reset();
  }

  std::shared_ptr<comm::Backend> backend;  ///< the world's
  std::unique_ptr<comm::World> world;
  std::shared_ptr<loader::Runtime> runtime;
};

}  // namespace strata::python
