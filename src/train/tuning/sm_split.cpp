// SPDX-License-Identifier: Apache-2.0
#include "tuning/sm_split.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "strata/util/error.hpp"

namespace strata::train {
namespace {

constexpr int kAll = 100;

std::optional<int> parse_percent(std::string_view text) {
  int percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return percent;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw InputError(fmt::format("--sm-split {}: {}", text, why),
                   "Give auto, off, or the percent of the SMs for loading and for training: 10,90 or, "
                   "overlapping, 20,100.");
}

}  // namespace

SmSplitRequest parse_sm_split(const std::string& text) {
  using Kind = SmSplitRequest::Kind;
  if (text == "auto") return {.kind = Kind::automatic};
  if (text == "off") return {.kind = Kind::off};
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) refuse(text, "this is no pair of shares");
  const std::string_view view = text;
  const auto load = parse_percent(view.substr(0, comma)), train = parse_percent(view.substr(comma + 1));
  if (!load || !train) refuse(text, "this is no pair of shares");
  for (const int share : {*load, *train}) {
    if (share < 1 || share > kAll) refuse(text, fmt::format("{} percent is not within 1 and 100", share));
  }
  if (*load == kAll && *train == kAll) refuse(text, "nothing is split");
  return {.kind = Kind::given, .shares = {.first = *load, .second = *train}};
}

std::string name_of(const cuda::SmShares& shares) {
  if (shares == kNoSmSplit) return "off";
  return fmt::format("{},{}", shares.first, shares.second);
}

}  // namespace strata::train
