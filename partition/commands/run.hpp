// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "commands/arguments.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/command.hpp"

/// The work of the commands once their options are read. `given` knows which of them were given.
namespace strata::partition {

CommandResult run_build(Arguments& args, const options::GivenOptions& given, StopFlag& stop);
CommandResult run_repartition(Arguments& args, const options::GivenOptions& given, StopFlag& stop);
CommandResult run_info(Arguments& args, const options::GivenOptions& given, StopFlag& stop);
CommandResult run_convert(Arguments& args, const options::GivenOptions& given, StopFlag& stop);
CommandResult run_verify(Arguments& args, const options::GivenOptions& given, StopFlag& stop);

}  // namespace strata::partition
