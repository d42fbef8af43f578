// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/cuda/stream.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {

/// An array whose lists are copied.
struct ListSource {
  AdjacencyCacheView copies;
  CachedEntries entries;  ///< written to
  const Count* indptr = nullptr;
  const void* data = nullptr;  ///< like `indptr` in memory that the device reads
  bool wide = false;           ///< entries have 8 bytes, else 4
};

/// Copies to this GPU the replicated lists of the nodes `replicated`, and to the stripes the striped lists of
/// the nodes `striped`. Asynchronous on `stream`.
void fill_adjacency_cache(const ListSource& source, const Range& replicated, const Range& striped,
                          const cuda::Stream& stream);

}  // namespace strata::store
