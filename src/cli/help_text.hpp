// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/train/option_table.hpp"

namespace strata::cli {

/// One option: its name and value at the left, what it does beside them.
std::string describe_option(const options::Option& option, int columns);

/// --help of a program that trains: what it does, and the common options, or all of them.
std::string train_help(const std::string& program, const options::OptionTable& table, bool all, int columns);

/// --help of strata-plan: its own options in `own`, and those that it shares with strata-train.
std::string plan_help(const std::string& program, const options::OptionTable& own,
                      const options::OptionTable& table, bool all, int columns);

}  // namespace strata::cli
