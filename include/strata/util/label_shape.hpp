// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "strata/util/label_sets.hpp"
#include "strata/util/types.hpp"

namespace strata {

/// The word of a target that is missing: the f32 NaN 0x7fc00000.
inline constexpr std::int32_t kMissingTarget = 0x7fc00000;

/// The form of the labels of a graph's nodes, each some words of 32 bits.
///
///     a class              1 word; -1: missing
///     a set of classes     as label_sets.hpp has it
///     targets of           1 word per column, an f32 that is finite or kMissingTarget; a node all of whose targets
///     regression           are missing has no label
struct LabelShape {
  Count classes = 0;
  bool sets = false;
  Count targets = 0;  ///< columns; 0: labels are classes

  Count words() const { return targets > 0 ? targets : sets ? label_set_words(classes) : 1; }

  /// The words of a node without label.
  std::vector<std::int32_t> missing() const {
    if (targets > 0) return std::vector<std::int32_t>(static_cast<std::size_t>(targets), kMissingTarget);
    return sets ? unlabelled_set(classes) : std::vector<std::int32_t>{-1};
  }
  bool is_missing(const std::int32_t* words) const {
    if (targets > 0)
      return std::all_of(words, words + targets, [](std::int32_t word) { return word == kMissingTarget; });
    return sets ? is_unlabelled(words, classes) : *words < 0;
  }
  /// Whether the words are a label of this form, or missing.
  bool allows(const std::int32_t* words) const {
    if (targets > 0)
      return std::all_of(words, words + targets, [](std::int32_t word) {
        return word == kMissingTarget || std::isfinite(std::bit_cast<float>(word));
      });
    return sets ? is_label_set(words, classes) : *words >= -1 && *words < classes;
  }
  bool operator==(const LabelShape&) const = default;
};

}  // namespace strata
