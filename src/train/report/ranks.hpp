// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "report/report.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::train {

/// The record of an epoch with times and memory of all ranks, on the first rank; null elsewhere. Collective.
nlohmann::json ranks_record(const comm::Communicator& world, const comm::Topology& topology,
                            const EpochReport& epoch, std::int64_t peak_device_bytes);

}  // namespace strata::train
