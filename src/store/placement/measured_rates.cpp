// SPDX-License-Identifier: Apache-2.0
#include "placement/measured_rates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strata/util/format.hpp"
#include "strata/util/log.hpp"

namespace strata::store {

std::vector<MeasuredRates> measure_rates(const comm::Machine& machine,
                                         std::span<const std::int64_t> row_lengths, int host_threads) {
  const std::vector<placement::MeasuredPaths> paths =
      placement::measure_path_rates(machine, row_lengths, {.threads = host_threads});
  std::vector<MeasuredRates> measured;
  for (std::size_t i = 0; i < row_lengths.size(); ++i) measured.push_back({row_lengths[i], paths[i]});
  return measured;
}

placement::PathRates rates_of_table(std::span<const MeasuredRates> measured, const RandomTable& table) {
  const auto found = std::ranges::find(measured, table.row_bytes, &MeasuredRates::row_bytes);
  if (found == measured.end()) return {};
  placement::PathRates rates = found->paths.rates;
  const placement::HostRate host =
      placement::host_rate_of_table(found->paths, table.row_bytes, table.table_bytes, table.host_path);
  rates.host = host.bytes_per_second;
  rates.host_start = host.start_seconds;
  return rates;
}

void log_rates(std::span<const MeasuredRates> measured) {
  for (const MeasuredRates& m : measured) {
    constexpr double kGiga = 1e9;
    spdlog::info(
        "random rows of {}: {:.1f} GB/s from the GPU itself, {:.1f} from its peers, {:.1f} from the host{}",
        format_bytes(m.row_bytes), m.paths.rates.local / kGiga, m.paths.rates.peer / kGiga,
        m.paths.rates.host / kGiga,
        m.paths.host_threads > 0
            ? fmt::format(", {:.1f} by CPU threads, {:.1f} by both after {}", m.paths.host_threads / kGiga,
                          m.paths.host_both / kGiga, format_seconds(m.paths.host_start))
            : "");
  }
}

}  // namespace strata::store
