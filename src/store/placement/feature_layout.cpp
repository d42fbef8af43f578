// SPDX-License-Identifier: Apache-2.0
#include "placement/feature_layout.hpp"

#include "strata/util/format.hpp"
#include "strata/util/log.hpp"

namespace strata::store {

placement::RowLayout layout_within(const placement::LayoutRates& rates, const FeatureShape& features,
                                   std::int64_t host_bytes) {
  placement::RowLayout layout = placement::best_layout(rates);
  layout.padded = layout.padded && features.rows() * features.with_padding().row_pitch() <= host_bytes;
  return layout;
}

placement::RowLayout choose_feature_layout(const comm::Machine& machine, const FeatureShape& features,
                                           std::int64_t host_bytes) {
  const placement::LayoutRates rates = placement::measure_layouts(machine, features.row_bytes());
  const placement::RowLayout layout = layout_within(rates, features, host_bytes);
  if (machine.rank() == 0 && machine.index() == 0) {
    constexpr double kGiga = 1e9;
    spdlog::info(
        "host rows of {}: {:.1f} GB/s as they lie, {:.1f} in aligned pieces, {:.1f} padded to {}: {}",
        format_bytes(features.row_bytes()), rates.as_they_lie / kGiga, rates.aligned / kGiga,
        rates.padded / kGiga, format_bytes(features.with_padding().row_pitch()),
        layout.padded          ? "they are padded"
        : layout.aligned_reads ? "they are read in aligned pieces"
                               : "they are read as they lie");
  }
  return layout;
}

}  // namespace strata::store
