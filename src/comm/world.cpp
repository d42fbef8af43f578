// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "state.hpp"

namespace strata::comm {

struct World::State {
  explicit State(Communicator all) : communicator(std::move(all)) {}
  Communicator communicator;
};

World::World(int* argc, char*** argv) : World(backend_of_program(argc, argv)) {}

World::World(std::shared_ptr<Backend> backend)
    : state_(std::make_unique<State>(Internals::adopt(std::move(backend), kPieceBytes))) {}

World::~World() {
  // The end of a run waits for all ranks. During an exception the others may never come, and main aborts the
  // run.
  if (std::uncaught_exceptions() > 0) return;
  try {
    state_->communicator.close();
  } catch (const std::exception& error) {
    fmt::print(stderr, "strata: the ranks did not part in order: {}\n", error.what());
  }
}

const Communicator& World::communicator() const { return state_->communicator; }
std::string World::host() const { return Internals::of(state_->communicator).backend->self().host; }
const char* World::backend() const { return Internals::of(state_->communicator).backend->name(); }

void World::abort(int exit_code) const {
  Internals::of(state_->communicator).backend->abort(exit_code);
  std::_Exit(exit_code);  // because the compiler does not believe a virtual function
}

}  // namespace strata::comm
