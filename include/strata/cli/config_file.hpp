// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "strata/train/config.hpp"

namespace strata::cli {

/// The contents of a configuration file.
struct ConfigFile {
  /// The settings from before, with the file's values over them; not validated.
  train::TrainSettings settings;
  /// Place of each option in the file: "hidden" -> "run.toml:3:1"
  std::map<std::string, std::string> given_at;
};

/// Reads a TOML document: the options of strata-train without their dashes, at the top or in the table of
/// their group.
///
///     epochs = 20
///     [model]
///     fanouts = [15, 10, 5]
///
/// Throws InputError, with `name`, line and column, if the text is not TOML, a key is unknown (with the
/// nearest name), given twice or in the table of another group, or a value has a wrong type or range. The
/// values are set over those of `settings`.
ConfigFile parse_config_file(std::string_view text, const std::string& name,
                             const train::TrainSettings& settings = {});

/// The same for a file. Throws InputError if it cannot be read.
ConfigFile read_config_file(const std::filesystem::path& path, const train::TrainSettings& settings = {});

/// Calls `check`. Adds to an InputError that it throws where the options were given that it
/// mentions; `given_at` is ConfigFile::given_at, without options that were given anew.
void with_places(const std::map<std::string, std::string>& given_at, const std::function<void()>& check);

}  // namespace strata::cli
