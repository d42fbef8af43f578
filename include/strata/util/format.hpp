// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

std::string format_bytes(std::int64_t bytes);  ///< 1536 -> "1.5 KiB"
/// The same, rounded up: parse_bytes() gives no less.
std::string format_bytes_at_least(std::int64_t bytes);
std::string format_count(std::int64_t count);  ///< 1234567 -> "1,234,567"
std::string format_seconds(double seconds);    ///< 0.0123 -> "12.3 ms", 75 -> "1:15"
/// (1, "rank") -> "1 rank", (1234, "rank") -> "1,234 ranks"; for nouns whose plural has an s more.
std::string counted(std::int64_t count, std::string_view noun);
std::int64_t parse_bytes(std::string_view text);  ///< "1.5GiB", "800M", "4096"; throws InputError

/// The candidate closest to `word` by edit distance, for "did you mean --fanouts?"; an empty string if none
/// is near.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

/// A text table with aligned columns: the first to the left, the others to the right. Rows are as long as the
/// header.
///
///     Table table({"part", "nodes"});  table.row({"0", "1,354"});  fmt::print("{}", table.str());
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace strata
