// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

#include "strata/graph/manifest_file.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/threads.hpp"

namespace strata::partition {

/// Checks more than hashes can: that the parts together are a graph as partition/FORMAT.md describes it.
std::vector<Problem> verify_contents(const std::filesystem::path& directory,
                                     const graph::PartitionRecord& record, ThreadPool& pool);

/// The most memory that verify() takes for a partition with `num_threads` threads.
///
/// 25 bytes per node (original id, heat, place in a split, bits); per thread one bit per node, pieces of one
/// part, and the hashes of the part's blocks.
std::int64_t verify_bytes(const graph::PartitionRecord& record, int num_threads);

}  // namespace strata::partition
