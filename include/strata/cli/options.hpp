// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "strata/train/config.hpp"

namespace strata::cli {

/// What a command line asks for: a run with this configuration, or, without one, a text to print (--help,
/// --version).
struct ParsedOptions {
  std::optional<train::TrainConfig> config;
  std::string text;
};

/// Reads the options of strata-train, and a TOML file given with --config (same names; the command line
/// wins). Throws InputError for options that are unknown ("did you mean --fanouts?"), malformed or
/// contradictory.
ParsedOptions parse_train_options(int argc, const char* const* argv);

}  // namespace strata::cli
