// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/types.hpp"

namespace strata {

struct Range {
  Count first = 0, count = 0;
  constexpr Count end() const { return first + count; }
};

/// The share of `whole` that falls to `rank` of `size` ranks: shares are contiguous, ascend in rank, and
/// differ in size by at most one.
///
///     share_of({10, 5}, 0..1, 2)  gives  {10, 2} and {12, 3}
inline Range share_of(Range whole, int rank, int size) {
  const Count begin = whole.count / size * rank + whole.count % size * rank / size;
  const Count end = whole.count / size * (rank + 1) + whole.count % size * (rank + 1) / size;
  return {whole.first + begin, end - begin};
}

}  // namespace strata
