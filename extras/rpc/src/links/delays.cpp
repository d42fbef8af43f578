// SPDX-License-Identifier: Apache-2.0
#include "links/delays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<DelaySettings> DelaySettings::parse(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view setting(text);
  const std::size_t comma = std::min(setting.find(','), setting.size());
  const auto seed = number(setting.substr(0, comma));
  const auto most_us = number(setting.substr(std::min(comma + 1, setting.size())));
  if (!seed || !most_us)
    throw InputError(fmt::format("STRATA_MESSAGE_DELAYS is '{}' in the environment", setting),
                     "Write a seed and microseconds, such as 1,2000, or unset it.");
  return DelaySettings{.seed = *seed, .most = std::chrono::microseconds(*most_us)};
}

Delays::Delays(const DelaySettings& settings, int from, int to) : most_(settings.most) {
  std::seed_seq seeds{settings.seed, static_cast<unsigned>(from), static_cast<unsigned>(to)};
  random_.seed(seeds);
}

std::chrono::microseconds Delays::next() {
  if (random_() % 2 == 0) return std::chrono::microseconds(0);
  return std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(0, most_.count())(random_));
}

}  // namespace strata::rpc
