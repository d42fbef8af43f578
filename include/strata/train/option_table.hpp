// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/train/option_values.hpp"

namespace strata::options {

/// One option of a program: all that the command line, configuration files, --help, the records of a run and
/// the comparison of runs know about it.
struct Option {
  std::string name;     ///< "batch-size": --batch-size, or a key of a file
  std::string heading;  ///< group of the option in --help
  std::string table;    ///< table of the option in a file: "training"
  std::string help;
  std::string hint;           ///< what a value looks like
  std::string default_value;  ///< as --help shows it; empty: not shown
  bool takes_value = true;
  bool value_is_optional = false;
  bool is_common = false;  ///< shown by the short --help
  /// Whether it affects the result: a run that is resumed must have the same value.
  bool is_fixed = false;
  bool of_host = false;     ///< ranks may differ in it
  bool of_one_run = false;  ///< means nothing to another run; a file that records a run has it as a comment
  /// These set the bound variable; see option_values.hpp.
  std::function<void(std::string_view what, std::string_view text)> read_text;
  std::function<void(std::string_view what, const FileValue& value)> read_file;
  std::function<std::string()> literal;  ///< the variable's value as TOML and JSON write it

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

/// The options of a program, bound to the variables that they set. The variables must outlive the table.
///
///     table.add("hidden", config.hidden, "Width of the hidden layers").common().fixed();
class OptionTable {
 public:
  /// Options that are added from now on belong to this heading in --help and, in a file, below [table] or in
  /// no table.
  void group(std::string heading, std::string table);

  /// Adds an option; the type of the variable decides how values are read.
  Option& add(std::string name, std::string& variable, std::string help) {
    return add_as<Text>(std::move(name), variable, std::move(help));
  }
  Option& add(std::string name, graph::Source& variable, std::string help) {
    return add_as<GraphSource>(std::move(name), variable, std::move(help));
  }
  Option& add(std::string name, bool& variable, std::string help) {
    return add_as<Flag>(std::move(name), variable, std::move(help));
  }
  template <std::signed_integral T>
  Option& add(std::string name, T& variable, std::string help) {
    return add_as<Integer<T>>(std::move(name), variable, std::move(help));
  }
  Option& add(std::string name, std::uint64_t& variable, std::string help) {
    return add_as<Unsigned>(std::move(name), variable, std::move(help));
  }
  Option& add(std::string name, double& variable, std::string help) {
    return add_as<Real>(std::move(name), variable, std::move(help));
  }
  Option& add(std::string name, std::vector<int>& variable, std::string help) {
    return add_as<Integers>(std::move(name), variable, std::move(help));
  }
  template <NamedEnum Enum>
  Option& add(std::string name, Enum& variable, std::string help) {
    return add_as<Choice<Enum>>(std::move(name), variable, std::move(help));
  }

  Option& add(std::string name, std::vector<std::uint64_t>& variable, std::string help) {
    return add_as<Unsigneds>(std::move(name), variable, std::move(help));
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
    option.read_text = [&variable](std::string_view what, std::string_view text) {
      variable = Type::from_text(what, text);
    };
    option.read_file = [&variable](std::string_view what, const FileValue& value) {
      variable = Type::from_file(what, value);
    };
    option.literal = [&variable] { return Type::literal(variable); };
    return options_.emplace_back(std::move(option));
  }

  const std::deque<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;  ///< null if there is none
  std::vector<std::string> names() const;
  std::vector<std::string> tables() const;  ///< each once

 private:
  std::deque<Option> options_;
  std::string heading_, table_;
};

}  // namespace strata::options
