// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "multilevel/jet_steps.hpp"
#include "multilevel/loads.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

struct JetOptions {
  std::vector<double> temperatures{0.75, 0.375, 0};  ///< one series of rounds each
  int patience = 8;                                  ///< rounds of a series without a better partition
  int most_rounds = 50;                              ///< of a series
  const StopFlag* stop = nullptr;                    ///< looked at in every round; null: none
};

/// Lowers the cut by rounds in which many nodes move at once, some of them at a loss.
///
/// A round collects the nodes whose best move costs at most `temperature` times their links to their own
/// part, keeps those that still gain when the better ones of their neighbors have moved, moves them, and
/// brings parts back to their limits (Gilbert, Madduri, Boman and Rajamanickam, "Jet", 2024, with the series
/// of temperatures of Maas et al. 2025). The best partition within the limits stays; without one, the last.
/// The same for every number of threads. Returns the cut.
Count refine_jet(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of,
                 const JetOptions& options, ThreadPool& pool);

/// The same with given steps, which were made for this graph and these parts.
Count refine_jet(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of,
                 const JetOptions& options, JetSteps& steps, ThreadPool& pool);

}  // namespace strata::partition
