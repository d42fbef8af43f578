// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "strata/train/option_table.hpp"

namespace strata::cli {

/// Words of a text, in lines of at most `columns` columns that begin with `indent` blanks, the first of them
/// after what stands there already. Ends with a newline.
std::string wrapped(std::string_view text, int indent, int columns);

/// One option: its name and value at the left, what it does beside them.
std::string describe_option(const options::Option& option, int columns);

/// --help: what the program does, and the common options, or all of them.
std::string train_help(const std::string& program, const options::OptionTable& table, bool all, int columns);

}  // namespace strata::cli
