// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/rates.hpp"

#include <algorithm>

namespace strata::plan {

tensor::PathRate host_rate_of_table(const tensor::MeasuredPaths& measured, std::int64_t table_bytes,
                                    tensor::HostPath path) {
  constexpr double kGranulesPerSecond = 30e6;
  constexpr std::int64_t kGranule = std::int64_t{64} << 10, kCovered = std::int64_t{1} << 30;
  const double translated = kGranulesPerSecond * static_cast<double>(std::min(measured.row_bytes, kGranule));
  const double host = measured.rates[tensor::Stratum::host].bytes_per_second;
  const double zero_copy = table_bytes <= kCovered ? host : std::min(host, translated);
  if (path == tensor::HostPath::automatic)
    path = table_bytes <= kCovered ? tensor::HostPath::zero_copy : tensor::HostPath::both;
  if (path == tensor::HostPath::zero_copy || measured.host_threads == 0)
    return {.bytes_per_second = zero_copy};
  if (path == tensor::HostPath::threads) return {measured.host_threads, measured.host_start};
  const double link = std::max(measured.host_both, measured.host_threads);
  return {std::min(zero_copy + measured.host_threads, link), measured.host_start};
}

tensor::PathRates rates_of_table(std::span<const tensor::MeasuredPaths> measured, const RandomTable& table) {
  const auto found = std::ranges::find(measured, table.row_bytes, &tensor::MeasuredPaths::row_bytes);
  if (found == measured.end()) return {};
  tensor::PathRates rates = found->rates;
  rates[tensor::Stratum::host] = host_rate_of_table(*found, table.table_bytes, table.host_path);
  return rates;
}

RowLayout best_layout(const tensor::LayoutRates& rates, const FeatureShape& features,
                      std::int64_t host_bytes) {
  constexpr double kWorthPadding = 1.1;
  return {.padded = rates.padded > kWorthPadding * std::max(rates.aligned, rates.as_they_lie) &&
                    features.rows() * features.with_padding().row_pitch() <= host_bytes,
          .aligned_reads = rates.aligned >= rates.as_they_lie};
}

}  // namespace strata::plan
