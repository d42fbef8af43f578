// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "strata/util/ranges.hpp"

namespace strata::store {

/// Which rows are in place, in memory that several ranks may share. A view; thread safe.
///
/// Each row has two bits: somebody has taken it upon himself to write it, and it is written. So no row is
/// written twice, and none is read while it is written.
class RowFlags {
 public:
  static std::size_t words(Count rows);  ///< of the memory, which begins as zeros
  RowFlags(std::uint64_t* words, Count rows);

  bool has(Count row) const;
  /// Calls write(run) for the runs of `rows` that nobody has taken, and then says that they are in place.
  void put(Range rows, const std::function<void(Range)>& write);

 private:
  std::vector<Range> take(Range rows);
  void say(Range rows);

  std::span<std::uint64_t> taken_, there_;
};

}  // namespace strata::store
