// SPDX-License-Identifier: Apache-2.0
#include "compaction/transpose_cpu.hpp"

#include <algorithm>

namespace strata::sampling {

// indptr first holds the ends of the lists. Filling the lists from the back, the last dst first, leaves their
// begins.
void transpose(const Block& block, const TransposeOutput& out) {
  std::fill_n(out.indptr, block.num_src + 1, 0);
  for (Count e = 0; e < block.num_edges; ++e) ++out.indptr[block.indices[e]];
  Count sum = 0;
  for (Count s = 0; s <= block.num_src; ++s) sum += out.indptr[s], out.indptr[s] = sum;
  for (Count dst = block.num_dst; dst-- > 0;) {
    for (Count e = block.indptr[dst]; e < block.indptr[dst + 1]; ++e) {
      out.indices[--out.indptr[block.indices[e]]] = static_cast<std::int32_t>(dst);
    }
  }
}

}  // namespace strata::sampling
