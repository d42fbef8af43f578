// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/comm/farewell.hpp"
#include "strata/util/error.hpp"

namespace strata::cli {

/// An error that ended what a program did on this rank, and how to tell of it.
struct Failure {
  std::string program;
  const std::exception& error;
  std::string advice = {};  ///< if the cause may lie in a host, not in what the user typed; empty: none
  std::optional<ExitCode> code = {};  ///< of the program, whatever the error is; none: exit_code(error)
};

/// Reports an error, once for all ranks, and returns the exit code. If all ranks met bad input, the caller
/// ends the program in order with this code, and has 5 s to do so. Otherwise, or without a farewell, the run
/// ends here for all ranks.
int fail(const Failure& failure, const comm::World& world, const comm::Farewell* farewell);

/// Says, on a rank of an mpirun that was not told to be quiet, that what mpirun adds below is only the exit
/// code.
void explain_mpirun();

}  // namespace strata::cli
