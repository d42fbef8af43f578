// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "strata/cuda/stream.hpp"

namespace strata::cuda {

/// Copies asynchronously in any direction between host, registered, pinned and device memory; on the cpu's
/// stream it is an ordinary memcpy. CUDA refuses copies across the end of a registered block, so they are cut
/// there: every copy between a GPU and host memory must go through this function or copy_rows_async().
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
/// Sets bytes of memory of the stream's device, or of pinned memory. Asynchronous, like copy_async.
void fill_async(void* to, int byte, std::size_t bytes, const Stream& stream);

}  // namespace strata::cuda
