// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>

#include "strata/graph/graph.hpp"

namespace strata::benchmark {

/// One run of the program gpmetis.
struct GpmetisRun {
  double wall_seconds = 0;       ///< of the whole program
  double partition_seconds = 0;  ///< CPU time, as it reports
  std::int64_t peak_bytes = 0;
  Count edge_cut = 0;  ///< undirected edges
};

/// Writes the graph as METIS reads it: neighbors in both directions once, without self-loops. REQUIRES:
/// undirected.
void write_metis_file(const graph::CscGraph& graph, const std::filesystem::path& path);

/// Throws InputError if gpmetis is not installed or fails.
GpmetisRun run_gpmetis(const std::filesystem::path& graph_file, int num_parts, std::uint64_t seed);

}  // namespace strata::benchmark
