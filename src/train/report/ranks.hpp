// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "report/memory_samples.hpp"
#include "report/report.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::train {

/// The memory that a rank has held.
struct RankMemory {
  std::int64_t peak_device_bytes = 0;  ///< libtorch's
  std::vector<MemorySample> samples;
};

/// The record of an epoch with times and memory of all ranks, on the first rank; null elsewhere. Collective.
nlohmann::json ranks_record(const comm::Communicator& world, const comm::Topology& topology,
                            const EpochReport& epoch, const RankMemory& memory);

}  // namespace strata::train
