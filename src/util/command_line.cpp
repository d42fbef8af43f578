// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>

#include "strata/util/error.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace strata::options {
namespace {

std::string name_of_option(const std::string& word) { return word.substr(0, word.find('=')); }

}  // namespace

CommandLine::Known* CommandLine::find(const std::string& word) {
  const std::string name = name_of_option(word);
  const auto found = std::ranges::find_if(
      known_, [&](const Known& known) { return !known.option->is_place && known.option->shown() == name; });
  return found == known_.end() ? nullptr : &*found;
}

CommandLine::Known* CommandLine::next_place() {
  const auto found = std::ranges::find_if(
      known_, [](const Known& known) { return known.option->is_place && known.values.empty(); });
  return found == known_.end() ? nullptr : &*found;
}

void CommandLine::parse(const std::vector<std::string>& words) {
  std::optional<std::string> stray;
  bool only_places = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--" && !only_places) {
      only_places = true;
      continue;
    }
    const bool is_place = only_places || !word->starts_with("-");
    if (Known* const known = is_place ? next_place() : find(*word))
      give(*known, is_place ? *word : value_of(*known->option, word, words.end()));
    else if (!stray)
      stray = *word;
  }
  if (stray) refuse(*stray);
  for (const Known& known : known_)
    if (known.option->is_required && known.values.empty())
      throw InputError(fmt::format("{} is required", known.option->shown()), hints_.help);
}

void CommandLine::give(Known& known, std::string value) {
  // The last value of an option wins, so that a person can change the defaults of a script.
  if (!known.option->repeats) known.values.clear();
  known.values.push_back(std::move(value));
}

std::string CommandLine::value_of(const Option& option, Word& word, Word end) {
  if (const std::size_t equals = word->find('='); equals != word->npos) return word->substr(equals + 1);
  if (!option.takes_value) return "true";
  const Word next = word + 1;
  if (option.value_is_optional && (next == end || next->starts_with("-"))) return "true";
  if (next == end || find(*next) != nullptr)
    throw InputError(fmt::format("{} needs a value", option.shown()), hints_.help);
  return *(word = next);
}

void CommandLine::refuse_empty_values() const {
  for (const Known& known : known_)
    if (std::ranges::count(known.values, "") > 0)
      throw InputError(fmt::format("{}: the value is empty", known.option->shown()),
                       "Give one, or leave the option out.");
}

std::vector<std::string> CommandLine::names() const {
  std::vector<std::string> names;
  for (const Known& known : known_)
    if (!known.values.empty()) names.push_back(known.option->name);
  return names;
}

void CommandLine::apply(const OptionTable& table) const {
  for (const Known& known : known_) {
    const Option* const option = table.find(known.option->name);
    if (option == nullptr) continue;
    for (const std::string& value : known.values) try {
        option->read_text(option->shown(), value);
      } catch (const InputError& error) {
        const std::string meant = hints_.for_value ? hints_.for_value(option->name, value) : "";
        if (meant.empty()) throw;
        throw InputError(error.what(), fmt::format("Did you mean {}?", meant));
      }
  }
}

void CommandLine::refuse(const std::string& word) const {
  const bool is_option = word.starts_with("-");
  const std::string name = is_option ? name_of_option(word) : "--" + word;
  std::string hint;
  if (is_option && hints_.for_option) hint = hints_.for_option(name);
  if (!is_option && hints_.for_word) hint = hints_.for_word(word);
  std::vector<std::string> names;
  for (const Known& known : known_)
    if (!known.option->is_place) names.push_back(known.option->shown());
  if (const std::string near = closest(name, names); hint.empty() && !near.empty())
    hint = fmt::format("Did you mean {}?", near);
  throw InputError(fmt::format("{} {}", is_option ? "unknown option" : "unexpected argument", word),
                   hint + (hint.empty() ? "" : " ") + hints_.help);
}

std::string read_words(const std::string& program, const std::string& about, const OptionTable& table,
                       const std::vector<std::string>& words) {
  if (std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; }))
    return about + list_options(table, true);
  CommandLine line({.help = program + " --help lists the options."});
  line.add(table);
  line.parse(words);
  line.refuse_empty_values();
  line.apply(table);
  return {};
}

}  // namespace strata::options
