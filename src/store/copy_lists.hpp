#pragma once
#include "shares.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/store/list_copies.hpp"

namespace strata::store {

/// An array of which lists are copied.
struct ListSource {
  ListCopies copies;
  EntryCopies entries;  ///< written to
  const Count* indptr = nullptr;
  const void* data = nullptr;  ///< as `indptr`, in memory that the device reads
  bool wide = false;           ///< entries have 8 bytes, else 4
};

/// Fills the copies of this GPU of the lists of nodes `replicated`, and the stripes of those of `striped`.
/// Asynchronous on `stream`.
void copy_lists(const ListSource& source, const Range& replicated, const Range& striped,
                const cuda::Stream& stream);

}  // namespace strata::store
