// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>

#include "commands/arguments.hpp"
#include "strata/partition/command.hpp"
#include "strata/partition/stop.hpp"

/// The work of the commands once their options are read. `command` knows which of them were given.
namespace strata::partition {

CommandResult run_build(Arguments& args, const CLI::App& command, StopFlag& stop);
CommandResult run_repartition(Arguments& args, const CLI::App& command, StopFlag& stop);
CommandResult run_info(Arguments& args, const CLI::App& command, const StopFlag& stop);
CommandResult run_convert(Arguments& args, const CLI::App& command, StopFlag& stop);
CommandResult run_verify(const Arguments& args);

}  // namespace strata::partition
