// SPDX-License-Identifier: Apache-2.0
#include "named_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "hints.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::cli {
namespace {

using options::Option;
using options::OptionTable;

std::string with(std::string name, char from, char to) {
  std::ranges::replace(name, from, to);
  return name;
}

/// Changes a hint for people at a command line ("Did you mean --batch-size?") into one for a call.
std::string as_keyword(const std::string& hint) {
  std::string result;
  for (std::size_t i = 0; i < hint.size(); ++i) {
    if (hint.compare(i, 2, "--") != 0) {
      result += hint[i];
      continue;
    }
    for (i += 2;
         i < hint.size() && (std::isalnum(static_cast<unsigned char>(hint[i])) != 0 || hint[i] == '-'); ++i)
      result += hint[i] == '-' ? '_' : hint[i];
    --i;
  }
  return result;
}

[[noreturn]] void refuse(const std::string& name, const std::vector<const OptionTable*>& known,
                         const std::string& caller) {
  std::string hint = as_keyword(hint_for_option(name));
  std::vector<std::string> names;
  for (const OptionTable* table : known)
    for (const std::string& option : table->names()) names.push_back(with(option, '-', '_'));
  const std::string near = closest(with(name, '-', '_'), names);
  if (hint.empty() && !near.empty()) hint = fmt::format("Did you mean {}?", near);
  throw InputError(fmt::format("{}() knows no option {}", caller, name),
                   hint + (hint.empty() ? "" : " ") + "strata-train --help all lists all options.");
}

}  // namespace

NamedOptions::NamedOptions(std::vector<NamedOption> given, const std::vector<const OptionTable*>& known,
                           const std::string& caller)
    : given_(std::move(given)) {
  for (NamedOption& option : given_) {
    const std::string name = with(option.name, '_', '-');
    if (std::ranges::none_of(known, [&](const OptionTable* table) { return table->find(name) != nullptr; }))
      refuse(option.name, known, caller);
    option.name = name;
  }
}

std::vector<std::string> NamedOptions::names() const {
  std::vector<std::string> names;
  for (const NamedOption& option : given_) names.push_back(option.name);
  return names;
}

void NamedOptions::apply(const OptionTable& table) const {
  for (const NamedOption& given : given_) {
    const Option* option = table.find(given.name);
    if (option == nullptr) continue;
    try {
      option->read_file(with(given.name, '-', '_'), given.value);
    } catch (const InputError& error) {
      const auto* text = given.value.as<std::string>();
      const std::string meant = text == nullptr ? "" : hint_for_value(given.name, *text);
      if (meant.empty()) throw;
      throw InputError(error.what(), fmt::format("Did you mean {}?", meant));
    }
  }
}

std::string call_text(const std::string& caller, const options::GivenOptions& given,
                      const OptionTable& values) {
  std::vector<std::string> arguments;
  for (const std::string& name : given.names())
    if (const Option* option = values.find(name))
      arguments.push_back(fmt::format("{}={}", with(name, '-', '_'), option->literal()));
  return fmt::format("{}({})", caller, fmt::join(arguments, ", "));
}

}  // namespace strata::cli
