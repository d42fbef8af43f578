// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "strata/util/files.hpp"

namespace strata {

std::string expand_home(std::string path) {
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home == '\0' || !(path == "~" || path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

std::string expand_home_in_word(std::string word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return expand_home(std::move(word));
  return word.substr(0, equals + 1) + expand_home(word.substr(equals + 1));
}

}  // namespace strata
