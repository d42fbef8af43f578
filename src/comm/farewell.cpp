// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/farewell.hpp"

#include <mpi.h>

#include <thread>

#include "mpi_state.hpp"

namespace strata::comm {

Farewell::Farewell(const Communicator& world) : communicator_(world.duplicate()) {}

std::optional<int> Farewell::meet(bool has_own_news, std::chrono::milliseconds patience) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPoll{2};
  const MpiState& state = Internals::of(communicator_);
  const int mine = has_own_news ? communicator_.rank() : communicator_.size();
  // Static, because a rank that gives up leaves it to MPI.
  static int own, first;
  own = mine;
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallreduce(&own, &first, 1, MPI_INT, MPI_MIN, state.handle, &request) != MPI_SUCCESS)
    return std::nullopt;
  const auto deadline = Clock::now() + patience;
  for (int done = 0;;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return std::nullopt;
    if (done != 0) return first < communicator_.size() ? first : 0;
    if (Clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace strata::comm
