// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>

#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace strata::options {
namespace {

constexpr const char* kIntegerRemedy =
    "Give an integer in digits, such as 256: no unit, no exponent, no leading zero.";
constexpr const char* kRealRemedy = "Give a finite decimal number, such as 0.003 or 3e-3.";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether a number has a leading zero: some programs read 00012 as 10, others as 12.
bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

template <typename T>
T parse_integer(std::string_view what, std::string_view text) {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, value);
  if (rest == end && failed == std::errc::result_out_of_range) {
    const bool below = text.starts_with('-');
    throw InputError(fmt::format("{}: {} is too {}", what, text, below ? "small" : "large"),
                     below ? fmt::format("Give at least {}.", std::numeric_limits<T>::min())
                           : fmt::format("Give at most {}.", std::numeric_limits<T>::max()));
  }
  if (failed != std::errc() || rest != end || has_leading_zero(text))
    throw InputError(fmt::format("{}: \"{}\" is no integer", what, text), kIntegerRemedy);
  return value;
}

std::string describe(const FileValue& value) {
  struct {
    std::string operator()(bool truth) const { return fmt::format("the boolean {}", truth); }
    std::string operator()(std::int64_t integer) const { return fmt::format("the integer {}", integer); }
    std::string operator()(double number) const { return fmt::format("the number {}", number); }
    std::string operator()(const std::string& text) const { return fmt::format("the string \"{}\"", text); }
    std::string operator()(const FileValue::Array&) const { return "an array"; }
    std::string operator()(const FileValue::Unusable& other) const { return other.kind; }
  } constexpr describer;
  return std::visit(describer, value.held);
}

}  // namespace

void refuse_type(std::string_view what, const FileValue& value, std::string_view wanted) {
  throw InputError(fmt::format("{}: {} is not {}", what, describe(value), wanted),
                   fmt::format("Give {} {}.", what, wanted));
}

std::int64_t check_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least)
    throw InputError(fmt::format("{}: {} is too small", what, value),
                     fmt::format("Give at least {}.", least));
  if (value > most)
    throw InputError(fmt::format("{}: {} is too large", what, value), fmt::format("Give at most {}.", most));
  return value;
}

std::int64_t read_integer(std::string_view what, std::string_view text, std::int64_t least,
                          std::int64_t most) {
  return check_range(what, parse_integer<std::int64_t>(what, text), least, most);
}

std::uint64_t read_unsigned(std::string_view what, std::string_view text) {
  if (text.starts_with('-'))
    throw InputError(fmt::format("{}: {} is negative", what, text), "Give 0 or more.");
  return parse_integer<std::uint64_t>(what, text);
}

double read_real(std::string_view what, std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, value);
  const bool complete = rest == end && !text.empty() && !has_leading_zero(text);
  if (complete && failed == std::errc::result_out_of_range)
    throw InputError(fmt::format("{}: {} is beyond what a double holds", what, text), kRealRemedy);
  if (!complete || failed != std::errc())
    throw InputError(fmt::format("{}: \"{}\" is no number", what, text), kRealRemedy);
  if (!std::isfinite(value)) throw InputError(fmt::format("{}: {} is not finite", what, text), kRealRemedy);
  return value;
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (result += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + '"';
}

std::string Unsigned::literal(Value value) {
  constexpr auto kMostOfToml = static_cast<Value>(std::numeric_limits<std::int64_t>::max());
  return value <= kMostOfToml ? std::to_string(value) : toml_string(std::to_string(value));
}

std::string Text::from_file(std::string_view what, const FileValue& value) {
  const auto* text = value.as<std::string>();
  if (text == nullptr) refuse_type(what, value, "a string in quotes");
  // The system reads paths and names only up to a zero byte.
  if (text->find('\0') != std::string::npos)
    throw InputError(fmt::format("{}: the string holds a zero byte", what), "Leave \\u0000 out.");
  return *text;
}

bool Flag::from_text(std::string_view what, std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw InputError(fmt::format("{}: there is no \"{}\"", what, text),
                   fmt::format("Give {} without a value, or {}=false.", what, what));
}

bool Flag::from_file(std::string_view what, const FileValue& value) {
  const auto* truth = value.as<bool>();
  if (truth == nullptr) refuse_type(what, value, "true or false");
  return *truth;
}

bool Switch::from_text(std::string_view what, std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  refuse_choice(what, text, {"on", "off"});
}

bool Switch::from_file(std::string_view what, const FileValue& value) {
  if (const auto* truth = value.as<bool>()) return *truth;
  const auto* text = value.as<std::string>();
  if (text == nullptr) refuse_type(what, value, "true or false");
  return from_text(what, *text);
}

std::uint64_t Unsigned::from_file(std::string_view what, const FileValue& value) {
  if (const auto* text = value.as<std::string>()) return from_text(what, *text);
  const auto* integer = value.as<std::int64_t>();
  if (integer == nullptr) refuse_type(what, value, "an integer");
  return static_cast<std::uint64_t>(check_range(what, *integer, 0, std::numeric_limits<std::int64_t>::max()));
}

double Real::from_file(std::string_view what, const FileValue& value) {
  if (const auto* integer = value.as<std::int64_t>()) return static_cast<double>(*integer);
  const auto* number = value.as<double>();
  if (number == nullptr) refuse_type(what, value, "a number");
  if (!std::isfinite(*number))
    throw InputError(fmt::format("{}: {} is not finite", what, *number), kRealRemedy);
  return *number;
}

std::vector<std::string_view> split_list(std::string_view what, std::string_view text) {
  if (text.find_first_of(" []()") != std::string_view::npos)
    throw InputError(fmt::format("{}: \"{}\" has blanks or brackets", what, text),
                     "Write a list with commas only, such as 15,10,5.");
  std::vector<std::string_view> entries;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    entries.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

std::vector<int> IntegerOrIntegers::from_file(std::string_view what, const FileValue& value) {
  if (value.as<FileValue::Array>() != nullptr) return Integers::from_file(what, value);
  return {Integer<int>::from_file(what, value)};
}

std::string FlagOrText::literal(const Value& value) {
  if (value.on && !value.text.empty()) return toml_string(value.text);
  return Flag::literal(value.on);
}

FlagOrText::Value FlagOrText::from_text(std::string_view, std::string_view text) {
  if (text == "false") return {};
  return {.on = true, .text = text == "true" ? std::string() : std::string(text)};
}

FlagOrText::Value FlagOrText::from_file(std::string_view what, const FileValue& value) {
  if (const auto* truth = value.as<bool>()) return {.on = *truth, .text = {}};
  const auto* text = value.as<std::string>();
  if (text == nullptr || *text == "true" || *text == "false")
    refuse_type(what, value, "true or false without quotes, or another text");
  return {.on = true, .text = Text::from_file(what, value)};
}

std::int64_t Bytes::from_text(std::string_view what, std::string_view text) {
  if (has_leading_zero(text))
    throw InputError(fmt::format("{}: \"{}\" begins with a zero", what, text), "Leave the zero out.");
  try {
    return parse_bytes(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", what, error.what()), error.remedy());
  }
}

std::int64_t Bytes::from_file(std::string_view what, const FileValue& value) {
  if (const auto* integer = value.as<std::int64_t>())
    return check_range(what, *integer, 0, std::numeric_limits<std::int64_t>::max());
  const auto* text = value.as<std::string>();
  if (text == nullptr) refuse_type(what, value, "a number of bytes, or a string such as \"60GiB\"");
  return from_text(what, *text);
}

std::int64_t BytesOrAuto::from_text(std::string_view what, std::string_view text) {
  if (text == "auto") return kAutomatic;
  try {
    return Bytes::from_text(what, text);
  } catch (const InputError& error) {
    throw InputError(error.what(), "Give an amount of memory such as 8GiB, 0 for none, or auto.");
  }
}

std::int64_t BytesOrAuto::from_file(std::string_view what, const FileValue& value) {
  const auto* text = value.as<std::string>();
  return text != nullptr ? from_text(what, *text) : Bytes::from_file(what, value);
}

}  // namespace strata::options
