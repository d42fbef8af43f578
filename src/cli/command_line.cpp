// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <fmt/format.h>

#include <string_view>

#include "hints.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::cli {
namespace {

using options::Option;

constexpr const char* kAllOptions = "strata-train --help all lists all options.";

}  // namespace

std::string CommandLine::Word::value() const {
  return option->value_is_optional && (text.empty() || text == "{}") ? "true" : text;
}

CommandLine::CommandLine() : app_("", "strata-train") {
  app_.set_help_flag();
  app_.allow_extras();  // collected so that the error can name the nearest option
}

void CommandLine::add(const Option& option) {
  Word& word = words_.emplace_back(Word{.option = &option});
  const std::string name = "--" + option.name;
  word.parsed = option.takes_value ? app_.add_option(name, word.text) : app_.add_flag(name, word.text);
  if (option.value_is_optional) word.parsed->expected(0, 1);
  // The last value of an option wins, so that a person can change the defaults of a script.
  word.parsed->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string_view text = e.what();  // "--graph: 1 required TEXT missing"
    throw InputError(fmt::format("{} needs a value", text.substr(0, text.find(':'))), kAllOptions);
  } catch (const CLI::ParseError& e) {
    throw InputError(e.what(), kAllOptions);
  }
  if (const std::vector<std::string> extras = app_.remaining(); !extras.empty()) refuse(extras.front());
}

std::vector<std::string> CommandLine::names() const {
  std::vector<std::string> names;
  for (const Word& word : words_)
    if (word.is_given()) names.push_back(word.option->name);
  return names;
}

void CommandLine::apply(const options::OptionTable& table) const {
  for (const Word& word : words_) {
    const Option* option = table.find(word.option->name);
    if (option == nullptr || !word.is_given()) continue;
    try {
      option->read_text("--" + option->name, word.value());
    } catch (const InputError& error) {
      const std::string meant = hint_for_value(option->name, word.value());
      if (meant.empty()) throw;
      throw InputError(error.what(), fmt::format("Did you mean {}?", meant));
    }
  }
}

void CommandLine::refuse(const std::string& word) const {
  if (!word.starts_with("-")) {
    const std::string hint = hint_for_word(word);
    throw InputError(fmt::format("unexpected argument {}", word),
                     (hint.empty() ? "Options begin with --; the numbers of a list have commas between them: "
                                     "15,10,5."
                                   : hint) +
                         " " + kAllOptions);
  }
  const std::string name = word.substr(0, word.find('='));
  std::string hint = hint_for_option(name);
  std::vector<std::string> names;
  for (const Word& known : words_) names.push_back("--" + known.option->name);
  if (const std::string near = closest(name, names); hint.empty() && !near.empty())
    hint = fmt::format("Did you mean {}?", near);
  throw InputError(fmt::format("unknown option {}", word), hint + (hint.empty() ? "" : " ") + kAllOptions);
}

}  // namespace strata::cli
