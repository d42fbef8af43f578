// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::test {

/// A list of rows that repeat, with gradients.
struct RowList {
  std::vector<NodeId> rows;
  std::vector<float> gradients;  ///< [count, cols]
  Count count() const { return std::ssize(rows); }
};

struct RowListOptions {
  Count rows = 100, count = 1000;
  Count hot = 0;  ///< further entries, all of one row
  Count cols = 1;
  unsigned seed = 1;
};

/// Some entries are -1.
inline RowList row_list(const RowListOptions& options) {
  std::mt19937_64 random(options.seed);
  std::uniform_int_distribution<NodeId> row(-1, options.rows - 1);
  std::normal_distribution<float> value;
  RowList list;
  for (Count i = 0; i < options.count; ++i) list.rows.push_back(row(random));
  list.rows.insert(list.rows.end(), at(options.hot), options.rows / 2);
  std::shuffle(list.rows.begin(), list.rows.end(), random);
  list.gradients.resize(at(list.count() * options.cols));
  for (float& gradient : list.gradients) gradient = value(random);
  return list;
}

}  // namespace strata::test
