// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "strata/train/config.hpp"

namespace strata::cli {

/// What a configuration file says.
struct ConfigFile {
  train::TrainConfig config;                    ///< defaults where the file says nothing; not validated
  std::map<std::string, std::string> given_at;  ///< of each option in the file: "hidden" -> "run.toml:3:1"
};

/// Reads a TOML document: the options of strata-train without their dashes, each alone or in the table of its
/// group.
///
///     epochs = 20
///     [model]
///     fanouts = [15, 10, 5]
///
/// Throws InputError, with `name`, line and column, for what is not TOML and for keys that are unknown (with
/// the nearest name), given twice or in another group's table, and for values of another type or range.
ConfigFile parse_config_file(std::string_view text, const std::string& name);

/// The same of a file's contents. Throws InputError for what is no file that can be read.
ConfigFile read_config_file(const std::filesystem::path& path);

}  // namespace strata::cli
