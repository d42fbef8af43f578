// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "commands/input_options.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/partition/build.hpp"
#include "strata/util/log.hpp"
#include "strata/util/options.hpp"

namespace strata::partition {

/// The options of all commands.
struct Arguments {
  /// --method: a name, or file:PATH.
  struct Method {
    PartitionMethod kind = PartitionMethod::automatic;
    std::filesystem::path file;
  };

  InputOptions input;
  Method method;
  std::vector<Constraint> balance;  ///< empty: the default
  LogLevel log_level = LogLevel::info;
  std::filesystem::path directory, report;
  std::string target;
  std::int64_t memory_bytes = 0;  ///< 0: what is free
  std::filesystem::path scratch;  ///< empty: the command's own choice
  bool json = false;
  graph::EdgeSplitOptions edge_split;
  BuildOptions build;
};

/// The options of each command, bound to the arguments that they set.
void add_build_options(options::OptionTable& table, Arguments& args);
void add_info_options(options::OptionTable& table, Arguments& args);
void add_convert_options(options::OptionTable& table, Arguments& args);
void add_repartition_options(options::OptionTable& table, Arguments& args);
void add_verify_options(options::OptionTable& table, Arguments& args);

/// Sets how nodes are assigned, and refuses contradictions. `repartition`: there are parts to merge and split.
void finish_assign_options(Arguments& args, const options::GivenOptions& given, bool repartition);

}  // namespace strata::partition
