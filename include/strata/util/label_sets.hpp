// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

/// Labels of several classes per node. Bit c of a node's words says whether it has class c; bit number
/// `classes` says that its classes are not known; all other bits are 0.
///
///     40 classes take 2 words; a node of classes 0 and 33 has {1, 2}, a node without label {0, 256}
namespace strata {

constexpr Count label_set_words(Count classes) { return (classes + 1 + 31) / 32; }

STRATA_HOST_DEVICE inline bool has_class(const std::int32_t* words, Count c) {
  return (static_cast<std::uint32_t>(words[c / 32]) >> (c % 32)) & 1u;
}

inline void add_class(std::int32_t* words, Count c) {
  words[c / 32] = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[c / 32]) | (1u << (c % 32)));
}

STRATA_HOST_DEVICE inline bool is_unlabelled(const std::int32_t* words, Count classes) {
  return has_class(words, classes);
}

inline std::vector<std::int32_t> unlabelled_set(Count classes) {
  std::vector<std::int32_t> words(static_cast<std::size_t>(label_set_words(classes)));
  add_class(words.data(), classes);
  return words;
}

/// Whether only bits with a meaning are set, and no class if the label is missing.
inline bool is_label_set(const std::int32_t* words, Count classes) {
  const Count num_words = label_set_words(classes);
  bool any = false;
  for (Count c = 0; c < classes; ++c) any = any || has_class(words, c);
  for (Count c = classes + 1; c < num_words * 32; ++c) {
    if (has_class(words, c)) return false;
  }
  return !(any && is_unlabelled(words, classes));
}

}  // namespace strata
