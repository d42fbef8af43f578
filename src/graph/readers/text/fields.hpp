// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <forward_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "readers/text/line_blocks.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {

/// The fields of one line. " " separates by any run of blanks and tabs; another separator, of one character
/// or several, stands between two fields, and blanks around fields are not part of them.
class FieldsOfLine {
 public:
  /// Views of `line` and `separator`.
  FieldsOfLine(std::string_view line, std::string_view separator, const Place& place)
      : rest_(line), separator_(separator), place_(place) {
    skip_blanks();
  }

  /// The next field without the quotes around it, valid while this object is; none at the end of the line.
  std::optional<std::string_view> next() {
    if (ended_) return std::nullopt;
    if (separator_ == kBlanks && rest_.empty()) return std::nullopt;
    if (!rest_.empty() && rest_.front() == '"') return quoted();
    const std::size_t end = separator_ == kBlanks ? rest_.find_first_of(" \t") : rest_.find(separator_);
    std::string_view field = rest_.substr(0, end);
    leave(end);
    while (!field.empty() && (field.back() == ' ' || field.back() == '\t')) field.remove_suffix(1);
    return field;
  }

 private:
  static constexpr std::string_view kBlanks = " ";

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || (rest_.front() == '\t' && separator_ != "\t")))
      rest_.remove_prefix(1);
  }
  /// Goes on behind the separator at `end`.
  void leave(std::size_t end) {
    if (end == std::string_view::npos) {
      rest_ = {};
      ended_ = true;
      return;
    }
    rest_.remove_prefix(end + separator_.size());
    skip_blanks();
  }
  std::string_view quoted() {
    std::size_t close = rest_.find('"', 1);
    bool doubled = false;
    while (close != std::string_view::npos && rest_.substr(close + 1).starts_with('"')) {
      doubled = true;
      close = rest_.find('"', close + 2);
    }
    if (close == std::string_view::npos) place_.refuse("a quotation mark is not closed");
    std::string_view field = rest_.substr(1, close - 1);
    if (doubled) field = without_doubled(field);
    rest_.remove_prefix(close + 1);
    skip_blanks();
    if (rest_.empty()) {
      ended_ = true;
      return field;
    }
    if (separator_ == kBlanks) return field;
    if (!rest_.starts_with(separator_)) place_.refuse("text behind a closing quotation mark");
    leave(0);
    return field;
  }

  /// Two quotation marks within a field stand for one.
  std::string_view without_doubled(std::string_view field) {
    std::string& text = rewritten_.emplace_front();
    for (std::size_t i = 0; i < field.size(); ++i) {
      text += field[i];
      i += field[i] == '"';
    }
    return text;
  }

  std::forward_list<std::string> rewritten_;  ///< fields whose text is not in the line
  std::string_view rest_;
  std::string_view separator_;
  const Place& place_;
  bool ended_ = false;
};

/// The number that a field holds. Refuses other text, and numbers out of T's range.
template <typename T>
T number_of(std::string_view field, const Place& place, const char* what,
            const char* remedy = "Correct the line.") {
  T value{};
  std::string_view digits = field;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc{} && stop == digits.data() + digits.size()) return value;
  place.require_utf8(field);
  place.refuse(fmt::format("{}: '{}' is not {}{}", what, printable(field.substr(0, 40)),
                           std::is_floating_point_v<T> ? "a number" : "an integer",
                           error == std::errc::result_out_of_range ? " in range" : ""),
               remedy);
}

/// Whether a line is blank, or a comment that begins with one of `marks`.
inline bool is_comment(std::string_view line, std::string_view marks) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || marks.find(line[first]) != std::string_view::npos;
}

}  // namespace strata::graph
