// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/enum_names.hpp"

namespace strata {

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, off };

template <>
inline constexpr auto enum_names<LogLevel> = std::to_array<EnumName<LogLevel>>({{LogLevel::trace, "trace"},
                                                                                {LogLevel::debug, "debug"},
                                                                                {LogLevel::info, "info"},
                                                                                {LogLevel::warn, "warn"},
                                                                                {LogLevel::error, "error"},
                                                                                {LogLevel::off, "off"}});

}  // namespace strata
