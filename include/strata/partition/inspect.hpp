// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/manifest_file.hpp"

namespace strata::partition {

/// The summary over all parts that `strata-partition info` shows.
struct Summary {
  Count halo_nodes = 0;
  Count cut_edges = 0;     ///< stored edges whose ends lie in different parts
  double replication = 1;  ///< (inner + halo) / nodes
  std::int64_t bytes = 0, feature_bytes = 0, structure_bytes = 0;
};
Summary summarize(const graph::PartitionRecord& record);

std::string info_text(const graph::PartitionRecord& record);  ///< tables for a person
std::string info_json(const graph::PartitionRecord& record);

/// One thing that is wrong with a partition directory.
struct Problem {
  std::string file;
  std::string dataset;  ///< empty: the file as a whole
  std::string message;
};

/// Compares every byte below `directory` with the manifest, then checks every invariant of
/// partition/FORMAT.md. Returns all problems; invariants are checked only if all bytes are as written. Parts
/// are read in pieces, whatever their size. Throws InputError only if there is no directory, and OutOfMemory
/// if 25 bytes per node and a little per thread are not free.
std::vector<Problem> verify(const std::filesystem::path& directory, int num_threads);

std::string verify_text(const std::filesystem::path& directory, const std::vector<Problem>& problems);
std::string verify_json(const std::filesystem::path& directory, const std::vector<Problem>& problems);

}  // namespace strata::partition
