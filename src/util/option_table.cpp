// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "strata/util/log.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace strata::options {
namespace {

constexpr int kIndent = 26;

}  // namespace

void OptionTable::group(std::string heading, std::string table) {
  heading_ = std::move(heading);
  table_ = std::move(table);
}

const Option* OptionTable::find(std::string_view name) const {
  const auto found = std::ranges::find(options_, name, &Option::name);
  return found == options_.end() ? nullptr : &*found;
}

std::vector<std::string> OptionTable::names() const {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(option.name);
  return names;
}

std::vector<std::string> OptionTable::tables() const {
  std::vector<std::string> tables;
  for (const Option& option : options_)
    if (std::ranges::find(tables, option.table) == tables.end()) tables.push_back(option.table);
  return tables;
}

int help_columns() {
  constexpr int kUsual = 80, kLeast = kIndent + 40, kMost = 120;
  return std::clamp(terminal_columns(kUsual), kLeast, kMost);
}

std::string describe(std::string left, const std::string& help) {
  left.insert(0, "  ");
  if (left.size() >= kIndent)
    left += '\n' + std::string(kIndent, ' ');
  else
    left.resize(kIndent, ' ');
  return left + wrapped(help, kIndent, help_columns());
}

std::string describe_option(const Option& option) {
  std::string left = option.shown(), help = option.help;
  // Long lists of choices stand with the explanation.
  const std::string hint = option.takes_value && !option.is_place ? option.hint : "";
  if (!hint.empty() && 2 + left.size() + 1 + hint.size() < kIndent)
    left += ' ' + hint;
  else if (!hint.empty())
    help = hint + "  " + help;
  if (!option.default_value.empty()) help += fmt::format(" [{}]", option.default_value);
  return describe(std::move(left), help);
}

std::string list_options(const OptionTable& table, bool all) {
  std::string text, heading;
  for (const Option& option : table.options()) {
    if (!all && !option.is_common) continue;
    if (option.heading != heading)
      text += all && !option.table.empty()
                  ? fmt::format("\n{} ([{}] in a file)\n", option.heading, option.table)
                  : fmt::format("\n{}\n", option.heading);
    heading = option.heading;
    text += describe_option(option);
  }
  return text;
}

}  // namespace strata::options
