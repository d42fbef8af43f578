// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "strata/cuda/stream.hpp"

namespace strata::cuda {

/// Asynchronous copy in any direction between host, registered, pinned and device memory; an ordinary memcpy
/// for the cpu's stream. Cut where registered blocks end, which CUDA refuses to cross: every copy between a
/// GPU and host memory goes through this function or the next.
void copy_async(void* to, const void* from, std::size_t bytes, const Stream& stream);

/// Rows that begin `pitch` bytes apart. A view.
struct PitchedRows {
  std::byte* data = nullptr;
  std::size_t pitch = 0;
};
struct RowsCopy {
  PitchedRows to, from;       ///< `from` is only read
  std::size_t row_bytes = 0;  ///< at most either pitch
  std::size_t rows = 0;
};
void copy_rows_async(const RowsCopy& copy, const Stream& stream);  ///< like copy_async
void fill_async(void* to, int byte, std::size_t bytes, const Stream& stream);

}  // namespace strata::cuda
