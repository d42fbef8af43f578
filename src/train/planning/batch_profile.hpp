// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// The job whose batches are looked at.
struct ProfiledJob {
  int machines = 1, ranks_per_machine = 1;
  Count global_batch = 0;
  std::vector<int> fanouts = {};
  std::vector<std::vector<int>> relation_fanouts = {};  ///< [hops][relations]; empty: `fanouts` for all
  std::uint64_t seed = 0;
  graph::Verify verify = graph::Verify::on;      ///< of what is read of the parts
  bool train_edges_only = false;                 ///< neighbors are those that --inductive sees
  int batches = 4;                               ///< at most; each of another step, on another machine
  std::chrono::milliseconds time_limit{20'000};  ///< after which no further batch begins
};

using plan::BatchProfile;

/// Samples batches of the job from its part files or formulas, on one thread, uniformly and without
/// replacement, and reads only the lists that it needs. Throws InputError if there are more machines than
/// parts, or if a part is damaged.
BatchProfile profile_batches(const graph::PartsOrigin& parts, const graph::Manifest& manifest,
                             const ProfiledJob& job);

}  // namespace strata::train
