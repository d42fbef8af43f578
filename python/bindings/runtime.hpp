// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "strata/batches/graph.hpp"
#include "strata/comm/backend.hpp"
#include "strata/comm/watchdog.hpp"

namespace strata::python {

/// The state that a process has once: its place among the ranks, and what it may use.
struct Process {
  Process(std::shared_ptr<comm::Backend> ranks, const comm::TopologyOptions& options)
      : backend(ranks),
        world(std::make_unique<comm::World>(std::move(ranks))),
        orderly_end(std::make_unique<comm::OrderlyEnd>(world->communicator())),
        end_notices(std::make_unique<comm::EndNotices>(world->communicator())),
        runtime(std::make_shared<batches::Runtime>(*world, options)) {}

  Device device() const { return runtime->device(); }

  /// Notes that this rank's program has ended; returns whether those of all ranks have, nothing if some has
  /// not within `patience`, false if a rank is gone. May be called again.
  std::optional<bool> part(std::chrono::milliseconds patience);
  /// Ends the run if this rank has waited for `waited` in one call although the program of a rank that it may
  /// wait for has ended.
  void end_if_left_alone(std::chrono::seconds waited);

  void close() {
    runtime->close();
    end_notices.reset();
    orderly_end.reset();
    world.reset();
    backend.reset();
  }

  std::shared_ptr<comm::Backend> backend;  ///< the world's
  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::OrderlyEnd> orderly_end;  ///< lets ranks whose programs end do so together
  std::unique_ptr<comm::EndNotices> end_notices;
  std::shared_future<bool> parting;  ///< valid once this rank's program has ended
  std::shared_ptr<batches::Runtime> runtime;
};

}  // namespace strata::python
