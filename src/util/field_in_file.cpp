// SPDX-License-Identifier: Apache-2.0
#include "field_in_file.hpp"

#include <fstream>
#include <sstream>
#include <string>

namespace strata {

std::optional<std::int64_t> field_in_file(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t value = 0;
    if (words >> word && word == name && words >> value) return value;
  }
  return std::nullopt;
}

}  // namespace strata
