// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::tensor {

/// Stands for "no row" among row numbers; zeros are written for it. It sorts last.
template <typename Number>
constexpr Number kNoRow = static_cast<Number>(-1);

/// Rows in host memory; a view.
struct RowSource {
  const std::byte* data = nullptr;
  std::size_t row_bytes = 0;  ///< of the elements
  std::size_t row_pitch = 0;  ///< from one row to the next, in bytes
};

/// How gathered rows are stored.
enum class RowStores : std::uint8_t {
  streaming,  ///< past the caches if size and alignment allow it, because a device reads the rows next
  cached,     ///< into the caches, for a device that reads faster from them
};

/// Copies the rows `numbers` to `out`, one after the other: [numbers.size() * row_bytes], of any alignment.
///
/// Later rows are prefetched. All stores are visible to threads and devices that see a later release by the
/// calling thread. Thread safe.
void copy_rows(const RowSource& source, std::span<const std::uint32_t> numbers, std::byte* out,
               RowStores stores);
void copy_rows(const RowSource& source, std::span<const std::uint64_t> numbers, std::byte* out,
               RowStores stores);

}  // namespace strata::tensor
