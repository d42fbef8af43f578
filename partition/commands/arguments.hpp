// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "commands/input_options.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

/// The options of all commands, as they were given.
struct Arguments {
  InputOptions input;
  std::string method = "auto", quality = "default", device = "cpu", log_level = "info";
  std::vector<std::string> balance{"nodes"};
  std::filesystem::path directory, report;
  std::string target, memory;
  std::filesystem::path scratch;  ///< empty: the command's own choice
  bool json = false;
  BuildOptions build;
};

/// The commands of strata-partition, bound to the arguments that they set.
struct CommandOptions {
  CLI::App *build, *info, *convert, *repartition, *verify;
};

/// Adds the commands with their options: the one list of them.
CommandOptions add_commands(CLI::App& app, Arguments& args);

/// Converts options that the parser read as text to their types, and refuses contradictions. `repartition`:
/// there are parts to merge and split.
void finish_assign_options(Arguments& args, const CLI::App& command, bool repartition);

}  // namespace strata::partition
