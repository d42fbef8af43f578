#pragma once
#include <filesystem>
#include <vector>

#include "strata/graph/manifest_file.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::partition {

/// Checks what hashes cannot: that the parts together are a graph as partition/FORMAT.md describes it.
std::vector<Problem> verify_contents(const std::filesystem::path& directory,
                                     const graph::PartitionRecord& record, ThreadPool& pool);

}  // namespace strata::partition
