// SPDX-License-Identifier: Apache-2.0
#include "place_rows.hpp"

#include <algorithm>
#include <cstring>

#include "strata/cuda/stream.hpp"

namespace strata::feature {

void place_rows(const ArrivedRows& arrived, float* out, const cuda::Stream& stream, ThreadPool& pool) {
  if (arrived.count == 0 || arrived.cols == 0) return;
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return place_rows_on_gpu(arrived, out, stream);
#else
  static_cast<void>(stream);
#endif
  constexpr Count kPieceElements = Count{1} << 14;
  const Count grain = std::max<Count>(1, kPieceElements / arrived.cols);
  pool.parallel_for(arrived.count, grain, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i) {
      if (arrived.positions[i] < 0) continue;
      std::memcpy(out + arrived.positions[i] * arrived.cols, arrived.rows + i * arrived.cols,
                  static_cast<std::size_t>(arrived.cols) * sizeof(float));
    }
  });
}

}  // namespace strata::feature
