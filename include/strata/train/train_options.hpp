// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>

#include "strata/train/config.hpp"
#include "strata/train/option_table.hpp"

namespace strata::train {

/// The variables that the options of strata-train set.
struct TrainSettings {
  TrainConfig config;
  bool tf32 = false;                  ///< --tf32, another way to ask for a precision
  options::FlagOrText::Value resume;  ///< --resume [RUN]
  options::FlagOrText::Value plan;    ///< --plan-only [json]
  std::string cluster;                ///< --cluster, of --plan-only
  std::vector<std::uint64_t> seeds;   ///< --seeds: one run for each; empty: one with config.seed
};

/// Settings that say what this config says.
TrainSettings settings_of(const TrainConfig& config);

/// The options of strata-train, bound to `settings`.
options::OptionTable train_options(TrainSettings& settings);

/// Translates --tf32 to a precision after the options of one source (command line or file) were read.
/// `is_given` says which options the source has; `dashes` is what it writes before them: "--" or "". Throws
/// InputError for a contradiction.
void settle_tf32(TrainSettings& settings, const std::function<bool(std::string_view name)>& is_given,
                 std::string_view dashes);

/// The same for --resume RUN, which names the output folder, too.
void settle_resume(TrainSettings& settings, const std::function<bool(std::string_view name)>& is_given,
                   std::string_view dashes);

}  // namespace strata::train
