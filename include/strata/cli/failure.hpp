// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/comm/watchdog.hpp"
#include "strata/util/error.hpp"

namespace strata::cli {

/// An error that ended a program's work on this rank, and how to report it.
struct Failure {
  std::string program;
  const std::exception& error;
  std::string advice = {};  ///< if the cause may lie in a host, not in what the user typed; empty: none
  std::optional<ExitCode> code = {};  ///< of the program, whatever the error is; none: exit_code(error)
};

/// Reports an error, once for all ranks, and returns the exit code. If all ranks met bad input, the caller
/// ends the program in order with this code, and has 5 s to do so. Otherwise, or without `orderly_end`, the
/// run ends here for all ranks.
int fail(const Failure& failure, const comm::World& world, const comm::OrderlyEnd* orderly_end);

/// Prints, on a rank of an mpirun without --quiet, that what mpirun adds below is only the exit
/// code.
void explain_mpirun();

}  // namespace strata::cli
