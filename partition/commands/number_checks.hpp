// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>

namespace strata::partition {

/// Checks of an option's value. The second line of their messages is the remedy.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
CLI::Validator number_within(double least, double most);  ///< neither NaN nor infinity

}  // namespace strata::partition
