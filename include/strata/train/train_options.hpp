// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>

#include "strata/train/config.hpp"
#include "strata/util/option_table.hpp"

namespace strata::train {

/// The variables that the options of strata-train and strata-plan set.
struct TrainSettings {
  TrainConfig config;
  options::FlagOrText::Value resume;  ///< --resume [RUN]
  std::vector<std::uint64_t> seeds;   ///< --seeds: one run for each; empty: one with config.seed
};

/// The settings with the values of this config.
TrainSettings settings_of(const TrainConfig& config);

/// The options of strata-train, bound to `settings`.
options::OptionTable train_options(TrainSettings& settings);

/// Translates --resume RUN, which names the output folder, too, after the options of one source (command line
/// or file) were read. `is_given` returns whether the source has an option; `dashes` stand before its name:
/// "--" or "". Throws InputError for a contradiction.
void settle_resume(TrainSettings& settings, const std::function<bool(std::string_view name)>& is_given,
                   std::string_view dashes);

}  // namespace strata::train
