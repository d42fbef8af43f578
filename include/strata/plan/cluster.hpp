// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "strata/plan/step_model.hpp"

namespace strata::plan {

/// The machines that a plan is for. All are alike.
struct Cluster {
  int machines = 1;
  int gpus = 0;   ///< per machine, one rank each; 0: CPUs
  int ranks = 1;  ///< per machine without GPUs
  int links = 0;  ///< per machine, shared evenly by its ranks; 0: one per rank
  Link link = {.bytes_per_second = 50e9, .latency_seconds = 10e-6, .message_seconds = 1e-6};  ///< one of them
  std::int64_t gpu_memory = std::int64_t{140} << 30;
  std::int64_t host_memory = std::int64_t{1} << 40;
  std::optional<double> compute_seconds;  ///< of a step of one rank, where it was measured; else estimated
  std::optional<double> sample_seconds, gather_seconds;  ///< likewise
  std::string measured;  ///< the folder of a run whose times count instead of estimates; empty: none

  bool has_gpus() const { return gpus > 0; }
  int ranks_per_machine() const { return has_gpus() ? gpus : ranks; }
  int all_ranks() const { return machines * ranks_per_machine(); }
  /// A rank's share of the links of its machine.
  Link link_of_rank() const;
};

/// Reads "machines=16,gpus=8,link=400Gbit/s,latency=10us,gpu-memory=140GiB,...". Throws InputError with what
/// is wrong, the nearest key and an example; also for keys that are given twice or contradict each other.
Cluster parse_cluster(std::string_view text);

}  // namespace strata::plan
