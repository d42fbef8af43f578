#pragma once
#include "gather.hpp"

namespace strata::store {

/// gather_on_gpu by bulk copies: rows travel from global to shared memory and back without passing registers,
/// so that few threads keep enough bytes in flight. REQUIRES: can_bulk(), all rows replicated.
void gather_bulk(const RowTable& table, const RowList& list, const RowFormat& format, void* out,
                 const LaunchShape& shape, const cuda::Stream& stream);

}  // namespace strata::store
