// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "planning/batch_profile.hpp"
#include "strata/graph/description.hpp"

namespace strata::train {

/// The manifest of a described graph that has a part on each machine, to which its nodes belong at random.
graph::Manifest manifest_of(const graph::Description& graph, int machines);

/// As profile_batches(), of a graph that is only described.
BatchProfile profile_described(const graph::Description& graph, const graph::Manifest& manifest,
                               const ProfiledJob& job);

}  // namespace strata::train
