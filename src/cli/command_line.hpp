// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>
#include <deque>
#include <string>
#include <vector>

#include "given_options.hpp"

namespace strata::cli {

/// The words after a program's name. CLI11 splits them; tables define their meaning.
class CommandLine final : public GivenOptions {
 public:
  CommandLine();

  /// Makes an option known. REQUIRES: `option` outlives this.
  void add(const options::Option& option);
  /// Throws InputError for options that are unknown ("did you mean --fanouts?") or lack a value.
  void parse(int argc, const char* const* argv);

  std::vector<std::string> names() const override;
  void apply(const options::OptionTable& table) const override;
  std::string_view dashes() const override { return "--"; }

 private:
  struct Word {
    const options::Option* option;
    CLI::Option* parsed = nullptr;
    std::string text = {};

    bool is_given() const { return parsed->count() > 0; }
    /// A value that was left out is "true".
    std::string value() const;
  };
  [[noreturn]] void refuse(const std::string& word) const;

  CLI::App app_;
  std::deque<Word> words_;  ///< a deque: CLI11 keeps their addresses
};

}  // namespace strata::cli
