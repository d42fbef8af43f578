// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/graph/graph.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

struct CleanPolicies {
  EdgePolicy duplicates = EdgePolicy::remove;
  EdgePolicy self_loops = EdgePolicy::keep;
};

/// What the lists held before they were cleaned, entry by entry.
struct ListCounts {
  Count entries = 0, self_loops = 0;
  Count duplicates = 0;       ///< the same (source, destination) again
  Count duplicate_loops = 0;  ///< duplicates that are self-loops
};

/// Applies the policies to lists ordered by (source, edge id). Empty edge ids stay empty.
ListCounts clean_lists(CscGraph& graph, const CleanPolicies& policies, ThreadPool& pool);

/// The report for a directed graph that lists each entry once.
CleaningReport report_of(const ListCounts& met, const CleanPolicies& policies);

}  // namespace strata::graph
