// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata {

std::string wrapped(std::string_view text, int indent, int columns) {
  std::string result;
  int column = indent;
  const auto width = static_cast<std::size_t>(std::max(1, columns - indent));
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end - begin > width) {  // long lists end lines with commas
      const std::size_t comma = text.rfind(',', begin + width - 1);
      if (comma != std::string_view::npos && comma > begin) end = comma + 1;
    }
    const std::string_view word = text.substr(begin, end - begin);
    if (column > indent && column + 1 + static_cast<int>(word.size()) > columns) {
      result += '\n' + std::string(at(indent), ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += static_cast<int>(word.size());
    begin = end + (end < text.size() && text[end] == ' ' ? 1 : 0);
  }
  return result + '\n';
}

}  // namespace strata
