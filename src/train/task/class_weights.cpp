// SPDX-License-Identifier: Apache-2.0
#include "task/class_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "strata/util/error.hpp"

namespace strata::train {

std::vector<double> parse_class_weights(const std::string& text) {
  std::vector<double> weights;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    double weight = 0;
    const auto [rest, failed] = std::from_chars(word.data(), word.data() + word.size(), weight);
    if (failed != std::errc() || rest != word.data() + word.size()) {
      throw InputError(fmt::format("--class-weights: \"{}\" is no number", word),
                       "Give one weight per class, such as 1,2.5,1, or balanced.");
    }
    if (!std::isfinite(weight) || weight < 0) {
      throw InputError(fmt::format("--class-weights: {} is no weight", word),
                       "Give finite numbers of 0 or more, or balanced.");
    }
    weights.push_back(weight);
    begin = end + 1;
  }
  return weights;
}

}  // namespace strata::train
