// SPDX-License-Identifier: Apache-2.0
#include "rows/place_rows.hpp"

#include <algorithm>

#include "strata/cuda/stream.hpp"

namespace strata::batches {
namespace {

void place_row(const ArrivedRows& arrived, Count row, float* to) {
  if (arrived.dtype == DType::bf16) {
    const std::uint16_t* from = static_cast<const std::uint16_t*>(arrived.rows) + row * arrived.cols;
    std::transform(from, from + arrived.cols, to, bf16_to_f32);
  } else {
    const float* from = static_cast<const float*>(arrived.rows) + row * arrived.cols;
    std::copy_n(from, arrived.cols, to);
  }
}

}  // namespace

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
      place_row(arrived, i, out + arrived.positions[i] * arrived.cols);
    }
  });
}

}  // namespace strata::batches
