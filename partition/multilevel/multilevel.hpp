// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "multilevel/accelerator.hpp"
#include "multilevel/level_graph.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

/// Entries of the largest graph that counts as small: it is worth more work, and METIS can have it as a
/// whole.
inline constexpr Count kSmallGraph = 2'000'000;

struct MultilevelOptions {
  int num_parts = 1;
  double imbalance = 0.03;
  std::vector<Count> limits;  ///< by constraint: the most that a part may weigh
  bool strong = false;        ///< more initial partitions and cycles
  bool try_metis = false;  ///< on a small graph also refine METIS's own partitions of it, and keep the best
  std::uint64_t seed = 0;
  Accelerator* accelerator = nullptr;  ///< takes the levels that suit it, if there is one
  const StopFlag* stop = nullptr;      ///< asked between levels and before METIS, if there is one
};

/// A partition with few cut edges: clusters are contracted until METIS can take the rest, and on the way back
/// every level is refined. It is within the limits unless single nodes weigh too much. The same for every
/// number of threads, and with and without an accelerator.
std::vector<std::int32_t> multilevel_parts(const LevelGraph& graph, const MultilevelOptions& options,
                                           ThreadPool& pool);

}  // namespace strata::partition
