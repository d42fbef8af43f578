// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata {

std::string list_choices(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

void refuse_choice(std::string_view option, std::string_view name, const std::vector<std::string>& choices) {
  const std::string near = closest(name, choices);
  throw InputError(fmt::format("{}: there is no \"{}\"", option, name),
                   (near.empty() ? "" : fmt::format("Did you mean {}? ", near)) +
                       fmt::format("Give {}.", list_choices(choices)));
}

}  // namespace strata
