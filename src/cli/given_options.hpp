// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "strata/train/option_table.hpp"

namespace strata::cli {

/// The options that somebody gave, on a command line or in a call, with their values.
class GivenOptions {
 public:
  virtual ~GivenOptions() = default;

  virtual std::vector<std::string> names() const = 0;  ///< as the tables have them: "batch-size"
  /// Sets the variables of the options that were given and that `table` has. Throws InputError.
  virtual void apply(const options::OptionTable& table) const = 0;
  virtual std::string_view dashes() const = 0;  ///< what stands before a name: "--" or nothing

  bool has(std::string_view name) const {
    const std::vector<std::string> given = names();
    return std::ranges::find(given, name) != given.end();
  }
};

}  // namespace strata::cli
