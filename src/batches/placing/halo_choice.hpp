// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "placing/read_counts.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/store/open_graph.hpp"

namespace strata::batches {

/// Bytes that a sampler takes of a GPU for a copy of these lists and their index.
std::int64_t gpu_bytes_of_lists(const store::HaloNodes& nodes, const plan::RegionSizes& sizes);

/// Keeps those rows and lists of other machines' nodes that plan::fill_budget() says, the hottest first. Of
/// nodes that are equally hot and do not all fit, each rank's share is taken in ascending order. The result
/// is the same on all ranks of a machine; the first rank of all logs its machine's.
///
/// `counts` of sampled batches; null: heat comes from the structure only. Collective over all ranks; throws
/// on all ranks alike.
store::HaloNodes choose_halo(const comm::Ranks& ranks, const store::OpenGraph& graph,
                             const store::LoadOptions& options, const plan::HaloBudget& budget,
                             const ReadCounts* counts);

}  // namespace strata::batches
