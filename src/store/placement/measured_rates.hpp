// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/placement/path_rates.hpp"
#include "strata/placement/planner.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::store {

/// Rates for rows of one length, of a small table.
struct MeasuredRates {
  std::int64_t row_bytes = 0;
  placement::MeasuredPaths paths;
};

/// Measures one after the other; see placement::measure_path_rates(). Collective over the machine.
std::vector<MeasuredRates> measure_rates(const comm::Machine& machine,
                                         std::span<const std::int64_t> row_lengths, int host_threads);

/// A table of which random rows are read.
struct RandomTable {
  std::int64_t row_bytes = 0, table_bytes = 0;
  tensor::HostPath host_path = tensor::HostPath::automatic;
};

/// The rates of rows of that length, with the host's for a table of that size. All 0 if no such length was
/// measured.
placement::PathRates rates_of_table(std::span<const MeasuredRates> measured, const RandomTable& table);

/// Writes one line per length.
void log_rates(std::span<const MeasuredRates> measured);

}  // namespace strata::store
