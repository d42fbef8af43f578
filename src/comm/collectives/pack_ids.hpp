// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {

/// The work of IdSegments::pack(). A view of arrays on one device; those of `out` hold -1.
template <typename Id>
struct PackTask {
  typename IdSegments<Id>::Source source;
  const Count* machine_offsets = nullptr;  ///< [num_machines + 1]
  Count num_machines = 0;
  int here = 0;  ///< this rank's machine
  typename IdSegments<Id>::Packed out;
  Count cap = 0;
  typename IdSegments<Id>::Tally tally;
};

/// Packs ids as pack() does on a CPU, but in any order within a segment.
template <typename Id>
void pack_on_gpu(const PackTask<Id>& task, const cuda::Stream& stream);

}  // namespace strata::comm
