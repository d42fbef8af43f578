// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

#include "relabel.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/partition/compact_graph.hpp"
#include "strata/partition/stop.hpp"

namespace strata::partition {

/// All that goes into part files; a view of what the build holds.
struct PartSource {
  const CompactGraph& structure;
  const graph::FeatureTable& features;
  const std::vector<std::int32_t>& labels;  ///< as graph::Graph has them
  const graph::Splits& splits;
  const Relabeling& relabeling;
  const graph::Manifest& manifest;
};

struct WrittenParts {
  std::vector<graph::PartRecord> records;  ///< halo nodes and cut edges included
  std::uint64_t feature_digest = 0;        ///< of all rows as stored, whichever part they are in; 0: none
};

/// Writes all part files into `directory`.
///
/// Rows are assembled by the pool's threads in pieces; no part is ever whole in memory. Throws IoError,
/// InputError (a feature that is not finite, or not once converted), Stopped.
WrittenParts write_parts(const std::filesystem::path& directory, const PartSource& source, ThreadPool& pool,
                         const StopFlag& stop);

}  // namespace strata::partition
