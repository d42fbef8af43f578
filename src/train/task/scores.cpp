// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "strata/train/task.hpp"
#include "strata/util/text.hpp"

namespace strata::train {

double Scores::of(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &Score::name);
  return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

bool Scores::beats(const Scores& best, std::string_view name) const {
  if (nodes == 0) return true;
  const double mine = of(name), other = best.of(name);
  const auto found = std::ranges::find(values, name, &Score::name);
  const bool higher = found == values.end() || found->higher_is_better;
  return (higher ? mine > other : mine < other) || (std::isnan(other) && !std::isnan(mine));
}

std::string score_text(double score) {
  return std::isfinite(score) ? fmt::format("{:.4f}", score) : std::string("-");
}

std::string scores_table(const std::string& title, const Scores& valid, const Scores& test) {
  std::vector<std::string> header{title};
  for (const Score& score : valid.values) header.push_back(score.title);
  header.insert(header.end(), {"loss", valid.counted});
  Table table(std::move(header));
  const auto add_row = [&](const char* name, const Scores& scores) {
    std::vector<std::string> cells{name};
    for (const Score& score : scores.values) cells.push_back(score_text(score.value));
    cells.insert(cells.end(), {score_text(scores.loss), format_count(scores.nodes)});
    table.row(std::move(cells));
  };
  add_row("validation", valid);
  add_row("test", test);
  return table.str();
}

}  // namespace strata::train
