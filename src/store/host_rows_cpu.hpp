#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::store {

/// Stands for "no row" among row numbers: zeros are written for it. Sorts last.
template <typename Number>
constexpr Number kNoRow = static_cast<Number>(-1);

/// Rows in host memory; a view.
struct RowSource {
  const std::byte* data = nullptr;
  std::size_t row_bytes = 0;  ///< of the elements
  std::size_t row_pitch = 0;  ///< from one row to the next, in bytes
};

/// Copies the rows `numbers` to `out`, one after the other: [numbers.size() * row_bytes], of any alignment.
///
/// Rows ahead are prefetched, and where size and alignment allow it the stores pass the caches by: what is
/// gathered here is read next by a GPU. All stores are visible to other threads and devices that see a later
/// release of the calling thread. Thread safe.
void copy_rows(const RowSource& source, std::span<const std::uint32_t> numbers, std::byte* out);
void copy_rows(const RowSource& source, std::span<const std::uint64_t> numbers, std::byte* out);

}  // namespace strata::store
