// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "value_types.hpp"

namespace strata::cli {

/// One option of a program: all that the command line, configuration files and --help know about it.
struct Option {
  std::string name;     ///< "batch-size": --batch-size, or a key of a file
  std::string heading;  ///< group of the option in --help
  std::string table;    ///< table of the option in a file: "training"
  std::string help;
  std::string hint;           ///< what a value looks like
  std::string default_value;  ///< as --help shows it; empty: not shown
  bool takes_value = true;
  /// These set the bound variable; see value_types.hpp.
  std::function<void(std::string_view what, std::string_view text)> read_text;
  std::function<void(std::string_view what, const FileValue& value)> read_file;
};

/// The options of a program, bound to the variables that they set. The variables must outlive the table.
class OptionTable {
 public:
  /// Options that are added from now on belong to this heading in --help and, in a file, below [table] or in
  /// no table.
  void group(std::string heading, std::string table);

  /// Adds an option; the type of the variable decides how values are read.
  void add(std::string name, std::string& variable, std::string help) {
    add_as<Text>(std::move(name), variable, std::move(help));
  }
  void add(std::string name, graph::Source& variable, std::string help) {
    add_as<GraphSource>(std::move(name), variable, std::move(help));
  }
  void add(std::string name, bool& variable, std::string help) {
    add_as<Flag>(std::move(name), variable, std::move(help));
  }
  template <std::signed_integral T>
  void add(std::string name, T& variable, std::string help) {
    add_as<Integer<T>>(std::move(name), variable, std::move(help));
  }
  void add(std::string name, std::uint64_t& variable, std::string help) {
    add_as<Unsigned>(std::move(name), variable, std::move(help));
  }
  void add(std::string name, double& variable, std::string help) {
    add_as<Real>(std::move(name), variable, std::move(help));
  }
  void add(std::string name, std::vector<int>& variable, std::string help) {
    add_as<Integers>(std::move(name), variable, std::move(help));
  }
  template <NamedEnum Enum>
  void add(std::string name, Enum& variable, std::string help) {
    add_as<Choice<Enum>>(std::move(name), variable, std::move(help));
  }

  template <typename Type>
  void add_as(std::string name, typename Type::Value& variable, std::string help) {
    options_.push_back(
        {.name = std::move(name),
         .heading = heading_,
         .table = table_,
         .help = std::move(help),
         .hint = Type::hint(),
         .default_value = Type::shown(variable),
         .takes_value = !std::is_same_v<Type, Flag>,
         .read_text = [&variable](std::string_view what,
                                  std::string_view text) { variable = Type::from_text(what, text); },
         .read_file = [&variable](std::string_view what,
                                  const FileValue& value) { variable = Type::from_file(what, value); }});
  }

  const std::vector<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;  ///< null if there is none
  std::vector<std::string> names() const;
  std::vector<std::string> tables() const;  ///< each once

 private:
  std::vector<Option> options_;
  std::string heading_, table_;
};

}  // namespace strata::cli
