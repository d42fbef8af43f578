// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/util/option_table.hpp"

namespace strata::options {

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
