// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "placement/feature_shape.hpp"
#include "strata/comm/machine.hpp"
#include "strata/placement/path_rates.hpp"

namespace strata::store {

/// The layout that the rates speak for; rows are padded only if all of them have room in `host_bytes` then.
placement::RowLayout layout_within(const placement::LayoutRates& rates, const FeatureShape& features,
                                   std::int64_t host_bytes);

/// Measures how feature rows should lie in host memory, and logs it. Collective over the machine.
placement::RowLayout choose_feature_layout(const comm::Machine& machine, const FeatureShape& features,
                                           std::int64_t host_bytes);

}  // namespace strata::store
