// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>

#include "option_table.hpp"
#include "strata/train/config.hpp"

namespace strata::cli {

/// What the options of strata-train set.
struct TrainSettings {
  train::TrainConfig config;
  bool tf32 = false;  ///< another way to ask for a precision
};

/// Bound to `settings`.
OptionTable train_options(TrainSettings& settings);

/// Makes --tf32 a precision, after the options of one source (command line or file) were read. `is_given`
/// tells which of them the source has; `dashes` is how it writes them: "--" or "". Throws InputError for a
/// contradiction.
void settle_tf32(TrainSettings& settings, const std::function<bool(std::string_view name)>& is_given,
                 std::string_view dashes);

}  // namespace strata::cli
