// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "mpi_state.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

void require_threads(int provided) {
  if (provided == MPI_THREAD_MULTIPLE) return;
  throw CommError(
      fmt::format("this MPI library gives thread level {} where {} (MPI_THREAD_MULTIPLE) is needed", provided,
                  static_cast<int>(MPI_THREAD_MULTIPLE)),
      "Use an MPI library that was built with thread support (ompi_info | grep THREAD_MULTIPLE).");
}

}  // namespace

struct World::State {
  explicit State(Communicator all) : communicator(std::move(all)) {}
  Communicator communicator;
};

World::World(int* argc, char*** argv) {
  MpiState world{.handle = MPI_COMM_WORLD, .owned = false, .host = host_name()};
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread", world);
  require_threads(provided);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &world.world_rank), "MPI_Comm_rank", world);
  check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", world);
  state_ = std::make_unique<State>(Internals::adopt(MPI_COMM_WORLD, world));
  Internals::state(state_->communicator).owned = false;
}

World::~World() {
  // MPI_Finalize waits for all ranks. During an exception the others may never come, and main aborts the run.
  if (std::uncaught_exceptions() > 0) return;
  MPI_Finalize();
}

const Communicator& World::communicator() const { return state_->communicator; }
std::string World::host() const { return Internals::of(state_->communicator).host; }

void World::abort(int exit_code) const {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace strata::comm
