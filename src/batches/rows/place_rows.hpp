// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/cuda/stream.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// Rows that arrived from other machines, and the output rows where they belong.
struct ArrivedRows {
  const void* rows = nullptr;               ///< [count, cols], readable by the stream's device (pinned)
  DType dtype = DType::f32;                 ///< of `rows`; or bf16
  const std::int32_t* positions = nullptr;  ///< [count], readable by the stream's device, too; -1: none
  Count count = 0, cols = 0;
};

/// out[positions[i]] = rows[i], as f32. Asynchronous on a GPU's stream; on the cpu it blocks and runs on
/// `pool`.
void place_rows(const ArrivedRows& arrived, float* out, const cuda::Stream& stream, ThreadPool& pool);

void place_rows_on_gpu(const ArrivedRows& arrived, float* out, const cuda::Stream& stream);

}  // namespace strata::batches
