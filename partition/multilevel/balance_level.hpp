// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "multilevel/loads.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

/// Moves nodes out of parts that exceed a limit, those first whose move cuts the least further weight per
/// unit of load. Returns the nodes that moved; stops when all parts fit or no node can be moved.
///
/// The same for every number of threads. Throws Stopped if `stop` is not null and a stop was requested.
std::vector<std::int32_t> balance_level(const LevelGraph& graph, Loads& loads,
                                        std::vector<std::int32_t>& part_of, ThreadPool& pool,
                                        const StopFlag* stop = nullptr);

}  // namespace strata::partition
