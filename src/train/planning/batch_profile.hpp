// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// The job whose batches are looked at.
struct ProfiledJob {
  int machines = 1, ranks_per_machine = 1;
  Count global_batch = 0;
  std::vector<int> fanouts = {};
  std::uint64_t seed = 0;
  graph::Verify verify = graph::Verify::on;      ///< of what is read of the parts
  bool train_edges_only = false;                 ///< neighbors are training nodes, as with --inductive
  int batches = 4;                               ///< at most; each of another step, on another machine
  std::chrono::milliseconds time_limit{20'000};  ///< after which no further batch begins
};

/// A batch of a rank: the mean of some that were sampled, before anything is cached.
struct BatchProfile {
  struct Hop {
    double nodes = 0;         ///< whose neighbors are sampled
    double picks = 0;         ///< neighbors of these
    double remote_nodes = 0;  ///< nodes of other machines
    double remote_picks = 0;  ///< neighbors of these
  };
  std::vector<Hop> hops;
  double inputs = 0, remote_inputs = 0;
  /// [i]: the share of the remote inputs, and of all inputs, in the first 2^-i of their parts' rows, which
  /// are ordered from hot to cold.
  static constexpr int kLevels = 16;
  std::array<double, kLevels> remote_heat{}, heat{};
  int batches = 0;
  Count steps_per_epoch = 0;
};

/// How wide the ids of the graph's nodes are where samplers keep them.
Count id_bytes(const graph::Manifest& manifest);

/// Samples batches of the job from its part files or formulas, on one thread, uniformly and without
/// replacement, and reads only the lists that it needs. Throws InputError if there are more machines than
/// parts, or if a part is damaged.
BatchProfile profile_batches(const graph::PartsOrigin& parts, const graph::Manifest& manifest,
                             const ProfiledJob& job);

}  // namespace strata::train
