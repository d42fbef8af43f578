// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/util/options.hpp"

namespace strata::cli {

/// --help of a program that trains: what it does, and the common options, or all of them.
std::string train_help(const std::string& program, const options::OptionTable& table, bool all);

/// --help of strata-plan: its own options in `own`, and those that it shares with strata-train.
std::string plan_help(const std::string& program, const options::OptionTable& own,
                      const options::OptionTable& table, bool all);

}  // namespace strata::cli
