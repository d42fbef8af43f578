// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <spdlog/spdlog.h>

#include <string>

#include "strata/util/log_level.hpp"

namespace strata {

/// Sends the log to stderr, each line with time, level and `name` ("rank 3"). Call once, early in main.
void init_log(const std::string& name, LogLevel level);

/// Also appends every line to this file. Throws IoError.
void add_log_file(const std::string& path);

}  // namespace strata
