// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>

#include "option_table.hpp"
#include "strata/train/config.hpp"

namespace strata::cli {

/// The variables that the options of strata-train set.
struct TrainSettings {
  train::TrainConfig config;
  bool tf32 = false;  ///< --tf32, another way to ask for a precision
};

/// The options of strata-train, bound to `settings`.
OptionTable train_options(TrainSettings& settings);

/// Translates --tf32 to a precision after the options of one source (command line or file) were read.
/// `is_given` says which options the source has; `dashes` is what it writes before them: "--" or "". Throws
/// InputError for a contradiction.
void settle_tf32(TrainSettings& settings, const std::function<bool(std::string_view name)>& is_given,
                 std::string_view dashes);

}  // namespace strata::cli
