// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <spdlog/spdlog.h>

#include <string>

#include "strata/util/log_level.hpp"

namespace strata {

/// Sends the log to stderr: information as it is, warnings and errors with their level and `name` ("rank 3";
/// empty: none). Call once, early in main.
void init_log(const std::string& name, LogLevel level);

/// The same where the terminal, stdout included, shows less of the log than log files: only what is of the
/// level `terminal`, too.
void init_log(const std::string& name, LogLevel level, LogLevel terminal);

}  // namespace strata
