// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <ranges>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/util/enum_names.hpp"
#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

/// The types of option values on a command line and in a configuration file.
///
/// A type has a Value, the word for --help (`hint`), the text of a default (`shown`), and a value's
/// `literal`, which is the same in TOML and JSON and which from_file() reads back. It reads a value from a
/// text or from a file's value. Both throw InputError whose message begins with `what`, the option as the
/// user wrote it: "--hidden" or "hidden". Without literal() and from_file(), a file has what is shown as a
/// string. With add() instead of from_text(), an option may be given several times.
namespace strata::options {

/// A value as a configuration file types it.
struct FileValue {
  using Array = std::vector<FileValue>;
  struct Unusable {
    std::string kind;  ///< "a date", "a table"
  };
  std::variant<bool, std::int64_t, double, std::string, Array, Unusable> held;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&held);
  }
};

[[noreturn]] void refuse_type(std::string_view what, const FileValue& value, std::string_view wanted);

/// Reads digits without a leading zero, perhaps after a minus; the number must lie between `least` and
/// `most`.
std::int64_t read_integer(std::string_view what, std::string_view text, std::int64_t least,
                          std::int64_t most);
std::uint64_t read_unsigned(std::string_view what, std::string_view text);
/// Reads a finite decimal number, with or without an exponent.
double read_real(std::string_view what, std::string_view text);
std::int64_t check_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most);

/// "text", with escapes.
std::string toml_string(std::string_view text);

struct Text {
  using Value = std::string;
  static std::string hint() { return "TEXT"; }
  static std::string shown(const Value& value) { return value; }
  static std::string literal(const Value& value) { return toml_string(value); }
  static Value from_text(std::string_view, std::string_view text) { return std::string(text); }
  static Value from_file(std::string_view what, const FileValue& value);
};

/// A file or a folder.
struct Path {
  using Value = std::filesystem::path;
  static std::string hint() { return "PATH"; }
  static std::string shown(const Value& value) { return value.string(); }
  static Value from_text(std::string_view, std::string_view text) { return text; }
};

struct Flag {
  using Value = bool;
  static std::string hint() { return ""; }
  static std::string shown(Value) { return ""; }
  static std::string literal(Value value) { return value ? "true" : "false"; }
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value);
};

/// on or off; in a file true or false, too.
struct Switch {
  using Value = bool;
  static std::string hint() { return "{on,off}"; }
  static std::string shown(Value value) { return value ? "on" : "off"; }
  static std::string literal(Value value) { return value ? "true" : "false"; }
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value);
};

template <std::signed_integral T, T kLeast = std::numeric_limits<T>::min(),
          T kMost = std::numeric_limits<T>::max()>
struct Integer {
  using Value = T;
  static std::string hint() {
    const bool any = kLeast == std::numeric_limits<T>::min() && kMost == std::numeric_limits<T>::max();
    return any ? "INT" : fmt::format("{}..{}", kLeast, kMost);
  }
  static std::string shown(Value value) { return std::to_string(value); }
  static std::string literal(Value value) { return std::to_string(value); }
  static Value from_text(std::string_view what, std::string_view text) {
    return static_cast<T>(read_integer(what, text, kLeast, kMost));
  }
  static Value from_file(std::string_view what, const FileValue& value) {
    const auto* integer = value.as<std::int64_t>();
    if (integer == nullptr) refuse_type(what, value, "an integer");
    return static_cast<T>(check_range(what, *integer, kLeast, kMost));
  }
};

struct Unsigned {
  using Value = std::uint64_t;
  static std::string hint() { return "UINT"; }
  static std::string shown(Value value) { return std::to_string(value); }
  static std::string literal(Value value);  ///< a string where TOML's integers end
  static Value from_text(std::string_view what, std::string_view text) { return read_unsigned(what, text); }
  static Value from_file(std::string_view what, const FileValue& value);
};

struct Real {
  using Value = double;
  static std::string hint() { return "FLOAT"; }
  static std::string shown(Value value) { return fmt::format("{}", value); }
  static std::string literal(Value value) { return fmt::format("{}", value); }
  static Value from_text(std::string_view what, std::string_view text) { return read_real(what, text); }
  static Value from_file(std::string_view what, const FileValue& value);
};

/// The entries of 15,10,5.
std::vector<std::string_view> split_list(std::string_view what, std::string_view text);

/// 15,10,5; in a file [15, 10, 5].
template <typename Entry>
struct List {
  using Value = std::vector<typename Entry::Value>;
  static std::string hint() { return Entry::hint() + ",..."; }
  static std::string shown(const Value& value) {
    return fmt::format("{}", fmt::join(value | std::views::transform(Entry::shown), ","));
  }
  static std::string literal(const Value& value) {
    return fmt::format("[{}]", fmt::join(value | std::views::transform(Entry::literal), ", "));
  }
  static Value from_text(std::string_view what, std::string_view text) {
    Value values;
    for (const std::string_view entry : split_list(what, text))
      values.push_back(Entry::from_text(what, entry));
    return values;
  }
  static Value from_file(std::string_view what, const FileValue& value) {
    const auto* array = value.as<FileValue::Array>();
    if (array == nullptr) refuse_type(what, value, "an array such as [15, 10, 5]");
    Value values;
    for (const FileValue& entry : *array)
      values.push_back(Entry::from_file(fmt::format("{}[{}]", what, values.size()), entry));
    return values;
  }
};
using Integers = List<Integer<int>>;

/// 4 or 8,8,1; in a file 4 or [8, 8, 1].
struct IntegerOrIntegers {
  using Value = std::vector<int>;
  static std::string hint() { return "INT[,...]"; }
  static std::string shown(const Value& value) { return Integers::shown(value); }
  static std::string literal(const Value& value) {
    return value.size() == 1 ? std::to_string(value.front()) : Integers::literal(value);
  }
  static Value from_text(std::string_view what, std::string_view text) {
    return Integers::from_text(what, text);
  }
  static Value from_file(std::string_view what, const FileValue& value);
};

/// A switch that may carry a text: --resume, --resume runs/last, or --resume=false; in a file true, false or
/// a string.
struct FlagOrText {
  struct Value {
    bool on = false;
    std::string text;
  };
  static std::string hint() { return "[TEXT]"; }
  static std::string shown(const Value&) { return ""; }
  static std::string literal(const Value& value);
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value);
};

template <NamedEnum Enum>
struct Choice {
  using Value = Enum;
  static std::string hint() { return fmt::format("{{{}}}", fmt::join(enum_choices<Enum>(), ",")); }
  static std::string shown(Value value) { return std::string(enum_name(value)); }
  static std::string literal(Value value) { return toml_string(enum_name(value)); }
  static Value from_text(std::string_view what, std::string_view text) {
    return enum_value<Enum>(text, what);
  }
};

/// 60GiB; in a file a string, or a number of bytes.
struct Bytes {
  using Value = std::int64_t;
  static std::string hint() { return "BYTES"; }
  static std::string shown(Value value) { return value == 0 ? "" : std::to_string(value); }
  static std::string literal(Value value) { return std::to_string(value); }
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value);
};

/// Bytes, or auto (-1).
struct BytesOrAuto {
  using Value = std::int64_t;
  static constexpr Value kAutomatic = -1;
  static std::string hint() { return "auto,BYTES"; }
  static std::string shown(Value value) { return value == kAutomatic ? "auto" : std::to_string(value); }
  static std::string literal(Value value) {
    return value == kAutomatic ? toml_string("auto") : std::to_string(value);
  }
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value);
};

}  // namespace strata::options
