// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strata/util/label_shape.hpp"
#include "strata/util/types.hpp"
#include "task/edge_links.hpp"

namespace strata::train {

/// What is learned of edges: a row of words for each, as label_shape.hpp has them of nodes. The rows of a relation
/// follow its edges in the input; those of the first relation come first.
struct EdgeTargets {
  std::string path;   ///< of their file; empty: there is none, and edges can only be predicted
  Count classes = 0;  ///< 0: they are numbers
  Count cols = 1;     ///< of numbers
  std::vector<std::int32_t> words = {};  ///< [edges, cols]

  Count num_edges() const { return std::ssize(words) / cols; }
  const std::int32_t* of(const Link& link, const LinkTypes& types) const {
    return words.data() + types.row_of(link) * cols;
  }
  std::int32_t missing() const { return classes > 0 ? -1 : kMissingTarget; }
  void require_file() const;  ///< throws InputError if there is none
  /// Throws InputError if the file does not have rows for these links.
  void require(std::span<const Link> links, const LinkTypes& types) const;
};

/// Reads classes (integers, negative: none) or numbers (floats, nan: none; one column or several) from a .npy file.
/// Throws InputError.
EdgeTargets read_edge_targets(const std::string& path, bool numbers);

}  // namespace strata::train
