// SPDX-License-Identifier: Apache-2.0
#include "commands/number_checks.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace strata::partition {
namespace {

template <typename T>
CLI::Validator number_check(const char* kind, T least, T most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        T value{};
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc{} && stop == end && value >= least && value <= most) return {};
        return fmt::format("'{}' is no {} in range {}\nGive a {} from {}.", text, kind, range, kind, range);
      },
      fmt::format("in [{} - {}]", least, most));
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return number_check("whole number", least, most);
}

CLI::Validator number_within(double least, double most) { return number_check("number", least, most); }

}  // namespace strata::partition
