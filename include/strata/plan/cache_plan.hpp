// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/graph/part_file.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/plan/run_shape.hpp"

/// What a profile of batches lets expect of other machines' nodes, for a forecast. Pure functions.
namespace strata::plan {

/// Of a feature row between machines: in its code, or rounded.
std::int64_t sent_row_bytes(const RunShape& run, const graph::Manifest& manifest);

/// Bytes of rows as they travel, and of neighbors over MPI.
WireBytes wire_bytes(const RunShape& run, const graph::Manifest& manifest);

/// What the profile's batches read of `others` nodes of other machines, by how hot these are in their parts.
struct ExpectedOffer {
  const RunShape& run;
  const graph::Manifest& manifest;
  const BatchProfile& profile;
  const WireBytes& wire;
  double others = 0;
  int ranks = 1;  ///< of a machine
};
HaloOffer offer_of(const ExpectedOffer& expected);

}  // namespace strata::plan
