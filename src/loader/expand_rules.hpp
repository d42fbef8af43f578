// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "strata/util/label_sets.hpp"

namespace strata::loader {

/// What a matrix of labels says of class c of a node with these words.
STRATA_HOST_DEVICE inline float label_value(const std::int32_t* words, Count classes, Count c) {
  if (is_unlabelled(words, classes)) return NAN;
  return has_class(words, c) ? 1.0F : 0.0F;
}

}  // namespace strata::loader
