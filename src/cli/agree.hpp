// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <optional>

#include "strata/cli/program.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::cli {

/// The command of this rank, or why it cannot be read.
struct Asked {
  std::optional<Command> command;
  std::exception_ptr error;

  /// Calls `make` for the command.
  template <typename Make>
  static Asked of(Make make) {
    try {
      return {.command = make(), .error = {}};
    } catch (const std::exception&) {
      return {.command = {}, .error = std::current_exception()};
    }
  }
};

/// Lets all ranks agree on what to do. The options of an earlier run are read by the first rank for all.
/// Collective; throws on all ranks what one of them throws.
ParsedOptions agree(const Asked& asked, const comm::Communicator& world);

}  // namespace strata::cli
