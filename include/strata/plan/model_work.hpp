// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/graph/part_file.hpp"
#include "strata/plan/run_shape.hpp"

namespace strata::plan {

/// Floating-point operations and bytes of neighbors' rows of one step: forward, and backward for all but the
/// first layer's input.
struct StepWork {
  double flops = 0, aggregated_bytes = 0;
};
StepWork work_of(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile);

/// Of weights and biases.
double parameters_of(const RunShape& run, const graph::Manifest& manifest);

/// What one step keeps of the rows between layers: outputs, what is computed on the way to them, and
/// gradients. An estimate, which fits measured runs of libtorch on CPUs within a third.
double activation_bytes(const RunShape& run, const graph::Manifest& manifest, const BatchProfile& profile);

}  // namespace strata::plan
