// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/graph/source.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

/// The types of option values on a command line and in a configuration file.
///
/// A type has a Value, the word for --help (`hint`), the text of a default (`shown`), and a value's
/// `literal`, which is the same in TOML and JSON and which from_file() reads back. It reads a value from a
/// text or from a file's value. Both throw InputError whose message begins with `what`, the option as the
/// user wrote it:
/// "--hidden" or "hidden".
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

/// A graph as a user names it.
struct GraphSource {
  using Value = graph::Source;
  static std::string hint() { return "SPEC"; }
  static std::string shown(const Value& value) { return value.text(); }
  static std::string literal(const Value& value) { return toml_string(value.text()); }
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value) {
    return from_text(what, Text::from_file(what, value));
  }
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

template <std::signed_integral T>
struct Integer {
  using Value = T;
  static constexpr std::int64_t kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  static std::string hint() { return "INT"; }
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

/// 15,10,5; in a file [15, 10, 5].
struct Integers {
  using Value = std::vector<int>;
  static std::string hint() { return "INT,..."; }
  static std::string shown(const Value& value) { return fmt::format("{}", fmt::join(value, ",")); }
  static std::string literal(const Value& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value);
};

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

/// 0,1,2; in a file [0, 1, 2].
struct Unsigneds {
  using Value = std::vector<std::uint64_t>;
  static std::string hint() { return "UINT,..."; }
  static std::string shown(const Value& value) { return fmt::format("{}", fmt::join(value, ",")); }
  static std::string literal(const Value& value);
  static Value from_text(std::string_view what, std::string_view text);
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
  static Value from_file(std::string_view what, const FileValue& value) {
    return from_text(what, Text::from_file(what, value));
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

/// Shows a number, or auto (-1).
struct NumberOrAuto {
  using Value = std::int64_t;
  static constexpr Value kAutomatic = -1;
  static std::string shown(Value value) { return value == kAutomatic ? "auto" : std::to_string(value); }
  static std::string literal(Value value) {
    return value == kAutomatic ? toml_string("auto") : std::to_string(value);
  }
};

/// Bytes, or auto.
struct BytesOrAuto : NumberOrAuto {
  static std::string hint() { return "auto,BYTES"; }
  static Value from_text(std::string_view what, std::string_view text);
  static Value from_file(std::string_view what, const FileValue& value);
};

}  // namespace strata::options
