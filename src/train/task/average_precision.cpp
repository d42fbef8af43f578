// SPDX-License-Identifier: Apache-2.0
#include "task/average_precision.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>

namespace strata::train {

double average_precision(ClassScores& scores, const comm::Communicator& communicator) {
  const auto is_nan = [](float score) { return std::isnan(score); };
  std::array<std::int64_t, 2> counts{
      std::ranges::count_if(scores.positives, is_nan) + std::ranges::count_if(scores.negatives, is_nan),
      std::ssize(scores.positives)};
  communicator.all_reduce(std::span<std::int64_t>(counts));
  if (counts[0] > 0 || counts[1] == 0) return std::numeric_limits<double>::quiet_NaN();
  std::vector<float> positives;
  const std::string mine(reinterpret_cast<const char*>(scores.positives.data()),
                         scores.positives.size() * sizeof(float));
  for (const std::string& blob : communicator.all_gather(mine)) {
    const std::size_t first = positives.size();
    positives.resize(first + blob.size() / sizeof(float));
    std::memcpy(positives.data() + first, blob.data(), blob.size());
  }
  std::ranges::sort(positives, std::greater());
  std::ranges::sort(scores.negatives, std::greater());
  // Negatives that are at least as high as each positive.
  std::vector<std::int64_t> above(positives.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < positives.size(); ++i) {
    while (next < scores.negatives.size() && scores.negatives[next] >= positives[i]) ++next;
    above[i] = static_cast<std::int64_t>(next);
  }
  communicator.all_reduce(std::span(above));
  double sum = 0;
  for (std::size_t begin = 0, end = 0; begin < positives.size(); begin = end) {
    while (end < positives.size() && positives[end] == positives[begin]) ++end;
    const auto right = static_cast<double>(end);
    sum += static_cast<double>(end - begin) * right / (right + static_cast<double>(above[begin]));
  }
  return sum / static_cast<double>(positives.size());
}

}  // namespace strata::train
