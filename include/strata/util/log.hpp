// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <spdlog/spdlog.h>

#include <string>

#include "strata/util/log_level.hpp"

namespace strata {

/// Sends the log to stderr: information as it is, warnings and errors with their level and `name` ("rank 3";
/// empty: none). Call once, early in main.
void init_log(const std::string& name, LogLevel level);

/// The same, but the terminal, stdout included, shows only messages that also reach the level `terminal`; log
/// files keep the others, too.
void init_log(const std::string& name, LogLevel level, LogLevel terminal);

}  // namespace strata
