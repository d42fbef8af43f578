// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <ranges>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
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

/// One option of a program: all that the command line, configuration files, --help, the records of a run and
/// the comparison of runs know about it.
struct Option {
  std::string name;     ///< "batch-size": --batch-size, or a key of a file; "SPEC" of a place
  std::string heading;  ///< group of the option in --help
  std::string table;    ///< table of the option in a file: "training"
  std::string help;
  std::string hint;           ///< what a value looks like
  std::string default_value;  ///< as --help shows it; empty: not shown
  bool takes_value = true;
  bool value_is_optional = false;
  bool repeats = false;      ///< its values add up; of another option, the last one counts
  bool is_place = false;     ///< an argument without a name
  bool is_required = false;  ///< on a command line
  bool is_common = false;    ///< shown by the short --help
  /// Whether it affects the result: a run that is resumed must have the same value.
  bool is_fixed = false;
  bool of_host = false;     ///< ranks may differ in it
  bool of_one_run = false;  ///< means nothing to another run; a file that records a run has it as a comment
  /// These set the bound variable; see OptionValues.
  std::function<void(std::string_view what, std::string_view text)> read_text;
  std::function<void(std::string_view what, const FileValue& value)> read_file;
  std::function<std::string()> literal;  ///< the variable's value as TOML and JSON write it

  std::string shown() const { return is_place ? name : "--" + name; }

  Option& like(std::string value) {
    hint = std::move(value);
    return *this;
  }
  Option& required() { return set(is_required); }
  Option& common() { return set(is_common); }
  Option& fixed() { return set(is_fixed); }
  Option& per_host() { return set(of_host); }
  Option& per_run() { return set(of_one_run); }

 private:
  Option& set(bool& fact) {
    fact = true;
    return *this;
  }
};

/// The type of an option's values, by the variable that they set.
Text type_of(const std::string&);
Path type_of(const std::filesystem::path&);
Flag type_of(const bool&);
Unsigned type_of(const std::uint64_t&);
Real type_of(const double&);
template <std::signed_integral T>
Integer<T> type_of(const T&);
template <NamedEnum Enum>
Choice<Enum> type_of(const Enum&);
template <typename T>
auto type_of(const std::vector<T>& values) -> List<decltype(type_of(values.front()))>;

/// The options of a program, bound to the variables that they set. The variables must outlive the table.
///
///     table.add("hidden", config.hidden, "Width of the hidden layers").common().fixed();
class OptionTable {
 public:
  /// Options that are added from now on belong to this heading in --help and, in a file, below [table] or in
  /// no table.
  void group(std::string heading, std::string table);

  /// Adds an option; the type of the variable decides how values are read.
  Option& add(std::string name, auto& variable, std::string help) {
    return add_as<decltype(type_of(variable))>(std::move(name), variable, std::move(help));
  }

  template <typename Type>
  Option& add_as(std::string name, typename Type::Value& variable, std::string help) {
    Option option;
    option.name = std::move(name);
    option.heading = heading_;
    option.table = table_;
    option.help = std::move(help);
    option.hint = Type::hint();
    option.default_value = Type::shown(variable);
    option.takes_value = !std::is_same_v<Type, Flag>;
    option.value_is_optional = std::is_same_v<Type, FlagOrText>;
    option.repeats = requires(std::string_view text) { Type::add(variable, text, text); };
    const auto read_text = [&variable](std::string_view what, std::string_view text) {
      if constexpr (requires { Type::add(variable, what, text); })
        Type::add(variable, what, text);
      else
        variable = Type::from_text(what, text);
    };
    option.read_text = read_text;
    if constexpr (requires { Type::from_file("", FileValue{}); })
      option.read_file = [&variable](std::string_view what, const FileValue& value) {
        variable = Type::from_file(what, value);
      };
    else
      option.read_file = [read_text](std::string_view what, const FileValue& value) {
        read_text(what, Text::from_file(what, value));
      };
    option.literal = [&variable] {
      if constexpr (requires { Type::literal(variable); })
        return Type::literal(variable);
      else
        return toml_string(Type::shown(variable));
    };
    return options_.emplace_back(std::move(option));
  }

  /// Adds an argument without a name, which is required.
  Option& place(std::string name, auto& variable, std::string help) {
    Option& option = add(std::move(name), variable, std::move(help));
    option.is_place = true;
    return option.required();
  }

  const std::deque<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;  ///< null if there is none
  std::vector<std::string> names() const;
  std::vector<std::string> tables() const;  ///< each once

 private:
  std::deque<Option> options_;
  std::string heading_, table_;
};

/// One option: its name and value at the left, what it does beside them.
std::string describe_option(const Option& option);
/// The same of anything else that has a name.
std::string describe(std::string left, const std::string& help);
/// The options of a table under their headings; without `all`, the common ones.
std::string list_options(const OptionTable& table, bool all);
/// The width of help: that of the terminal, within limits.
int help_columns();

/// The options that somebody gave, on a command line or in a call, with their values.
class GivenOptions {
 public:
  virtual ~GivenOptions() = default;

  virtual std::vector<std::string> names() const = 0;  ///< as the tables have them: "batch-size"
  /// Sets the variables of the options that were given and that `table` has. Throws InputError.
  virtual void apply(const OptionTable& table) const = 0;
  virtual std::string_view dashes() const = 0;  ///< what stands before a name: "--" or nothing

  bool has(std::string_view name) const {
    const std::vector<std::string> given = names();
    return std::ranges::find(given, name) != given.end();
  }
};

/// How a program helps with words that it does not understand. Hints are sentences, or empty.
struct Hints {
  std::string help;  ///< "strata-doctor --help lists the options."
  /// For the name of an option that is unknown, with its dashes, and for a word that is no option.
  std::function<std::string(std::string_view name)> for_option = {};
  std::function<std::string(const std::string& word)> for_word = {};
  /// The value that a user means by this value of an option: ("model", "GraphSAGE") -> "sage".
  std::function<std::string(std::string_view option, std::string_view value)> for_value = {};
};

/// The words after a program's name: --NAME VALUE or --NAME=VALUE, --FLAG, and values of places. After --,
/// all are places. Tables define what they mean.
///
///     CommandLine line({.help = "mine --help lists the options."});
///     line.add(table);
///     line.parse({"--hidden", "64"});
///     line.apply(table);
class CommandLine final : public GivenOptions {
 public:
  explicit CommandLine(Hints hints) : hints_(std::move(hints)) {}

  /// Makes options known. REQUIRES: they outlive this.
  void add(const Option& option) { known_.push_back({.option = &option}); }
  void add(const OptionTable& table) {
    for (const Option& option : table.options()) add(option);
  }
  /// Throws InputError for options that are unknown ("did you mean --fanouts?"), lack a value or are missing.
  void parse(const std::vector<std::string>& words);
  /// Throws InputError for a value without a character: an empty variable of a shell must not undo what an
  /// option promises.
  void refuse_empty_values() const;

  std::vector<std::string> names() const override;
  void apply(const OptionTable& table) const override;
  std::string_view dashes() const override { return "--"; }

 private:
  struct Known {
    const Option* option;
    std::vector<std::string> values = {};  ///< one at most, unless the option repeats
  };
  Known* find(const std::string& word);  ///< "--parts" or "--parts=4"; null if there is no such option
  Known* next_place();
  static void give(Known& known, std::string value);
  using Word = std::vector<std::string>::const_iterator;
  std::string value_of(const Option& option, Word& word, Word end);  ///< moves `word` to a value of its own
  [[noreturn]] void refuse(const std::string& word) const;

  Hints hints_;
  std::vector<Known> known_;
};

/// Sets the variables of the table from the words of a program that takes nothing else. Returns a text to
/// print instead of a run, if it asks for --help: `about` and the options. Throws InputError.
std::string read_words(const std::string& program, const std::string& about, const OptionTable& table,
                       const std::vector<std::string>& words);

}  // namespace strata::options
