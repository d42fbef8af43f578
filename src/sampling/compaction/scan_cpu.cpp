// SPDX-License-Identifier: Apache-2.0
#include "compaction/scan_cpu.hpp"

#include <numeric>
#include <utility>
#include <vector>

namespace strata::sampling {

Count exclusive_scan(Count* values, Count count, ThreadPool& pool) {
  constexpr Count kPerPiece = 16384;
  std::vector<Count> piece_sums(at((count + kPerPiece - 1) / kPerPiece));
  pool.parallel_for(count, kPerPiece, [&](Count begin, Count end) {
    piece_sums[at(begin / kPerPiece)] = std::accumulate(values + begin, values + end, Count{0});
  });
  Count total = 0;
  for (Count& sum : piece_sums) total += std::exchange(sum, total);
  pool.parallel_for(count, kPerPiece, [&](Count begin, Count end) {
    Count sum = piece_sums[at(begin / kPerPiece)];
    for (Count i = begin; i < end; ++i) sum += std::exchange(values[i], sum);
  });
  values[count] = total;
  return total;
}

}  // namespace strata::sampling
