// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::train {

/// One number that measures how good a model is.
struct Score {
  std::string name;        ///< in records: "macro_f1"
  std::string title = {};  ///< in tables: "macro F1"
  double value = 0;        ///< NaN: not defined
  bool higher_is_better = true;

  bool operator==(const Score&) const = default;
};

/// Scores of one split over all ranks.
struct Scores {
  Count nodes = 0;  ///< with a target
  double loss = 0;  ///< the mean
  std::vector<Score> values = {};

  /// The value of a score; NaN for a name that is not among them.
  double of(std::string_view name) const;
  /// Whether the model with these validation scores replaces the one with `best`, because this score is
  /// better. NaN loses to every number and beats nothing. Without validation nodes the latest model is the
  /// best.
  bool beats(const Scores& best, std::string_view name) const;
};

/// "0.8125"; "-" for a score that is not defined.
std::string score_text(double score);

/// The scores of both splits as a table for people, below a title.
std::string scores_table(const std::string& title, const Scores& valid, const Scores& test);

}  // namespace strata::train
