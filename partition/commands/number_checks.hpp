// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>

namespace strata::partition {

/// What an option takes. The second line of what they say is the remedy.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
CLI::Validator number_within(double least, double most);  ///< neither NaN nor infinity

}  // namespace strata::partition
