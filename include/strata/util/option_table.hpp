// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/util/option_values.hpp"

namespace strata::options {

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
  /// These set the bound variable; see option_values.hpp.
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
    option.read_file = [&variable, read_text](std::string_view what, const FileValue& value) {
      if constexpr (requires { Type::from_file(what, value); })
        variable = Type::from_file(what, value);
      else
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

}  // namespace strata::options
