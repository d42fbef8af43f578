// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}};

/// Formats a size; `in_unit` formats the number of units.
template <typename InUnit>
std::string bytes_text(std::int64_t bytes, InUnit in_unit) {
  constexpr double kRoundsUp = 1 - 0.05 / 1024;  // 1023.95 of a unit would be printed as 1024.0
  const auto value = static_cast<double>(bytes);
  for (const Unit& unit : kUnits)
    if (std::abs(value) >= unit.bytes * kRoundsUp)
      return fmt::format("{:.1f} {}", in_unit(value / unit.bytes), unit.name);
  return fmt::format("{} B", bytes);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  return bytes_text(bytes, [](double units) { return units; });
}

std::string format_bytes_at_least(std::int64_t bytes) {
  return bytes_text(bytes, [](double units) { return std::ceil(10 * units) / 10; });
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(std::abs(count));
  for (auto i = static_cast<std::int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(at(i), ",");
  return count < 0 ? "-" + digits : digits;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_seconds(double seconds) {
  // A value that would round up to the next unit is printed in that unit.
  if (seconds * 1e6 < 999.5) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds * 1e3 < 999.95) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
}

std::int64_t parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, at(text.data() + text.size() - end));
  const auto refuse = [&] {
    return InputError(fmt::format("\"{}\" is not an amount of memory", text),
                      "Write a number and a unit: 4GiB, 800M, 4096.");
  };
  if (failed != std::errc{} || !(value >= 0)) throw refuse();  // "nan" is a number to from_chars
  double scale = 1;
  if (!unit.empty() && unit != "B") {
    const auto* found = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& u) {
      return unit == u.name || unit == u.name.substr(0, 1) || unit == std::string{u.name[0], 'B'};
    });
    if (found == std::end(kUnits)) throw refuse();
    scale = found->bytes;
  }
  if (value * scale >= 0x1p63)
    throw InputError(fmt::format("\"{}\" is too large an amount of memory", text),
                     "Give less than 8388608TiB, e.g. 4GiB, 800M, 4096.");
  return static_cast<std::int64_t>(value * scale);
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string Table::str() const {
  std::vector<std::size_t> width(rows_.front().size());
  for (const auto& cells : rows_) {
    for (std::size_t c = 0; c < width.size(); ++c) width[c] = std::max(width[c], cells.at(c).size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < width.size(); ++c) {
      text += c == 0 ? fmt::format("{:<{}}", rows_[r][c], width[c])
                     : fmt::format("  {:>{}}", rows_[r][c], width[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
    if (r > 0) continue;
    for (std::size_t c = 0; c < width.size(); ++c) text += (c == 0 ? "" : "  ") + std::string(width[c], '-');
    text += '\n';
  }
  return text;
}

}  // namespace strata
