// SPDX-License-Identifier: Apache-2.0
#include "strata/train/option_table.hpp"

#include <algorithm>

namespace strata::options {

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

}  // namespace strata::options
