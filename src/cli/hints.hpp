// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "strata/util/options.hpp"

namespace strata::cli {

/// A hint for the name of an option that other programs have: "--num-layers" -> "--fanouts has one number per
/// layer: 15,10,5 makes three." Empty if the name is not known.
std::string hint_for_option(std::string_view name);

/// The value that a user means by this value of an option: ("model", "GraphSAGE") -> "sage". Empty if
/// that is not known.
std::string hint_for_value(std::string_view option, std::string_view value);

/// All hints for a command line, also those for words: "parts" -> "Did you mean --graph parts?"
options::Hints train_hints();

}  // namespace strata::cli
