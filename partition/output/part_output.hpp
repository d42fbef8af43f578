// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

#include "output/relabel.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

/// Everything that is written to part files. A view of the build's data.
struct PartSource {
  const CompactGraph& structure;
  const graph::FeatureTable& features;
  const std::vector<std::int32_t>& labels;    ///< as graph::Graph has them
  const std::vector<std::int32_t>& clusters;  ///< by original id, within the part; empty: none
  const graph::Splits& splits;
  const graph::EdgeSplits& edge_splits;
  const Relabeling& relabeling;
  const graph::Manifest& manifest;
  bool count_between = false;  ///< whether to fill WrittenParts::edges_between
};

struct WrittenParts {
  std::vector<Count> edges_between{};      ///< as in BuildReport
  std::vector<graph::PartRecord> records;  ///< including halo nodes and cut edges
  std::uint64_t feature_digest = 0;  ///< of all rows as stored, independent of the parts; 0: no features
};

/// Writes all part files into `directory`.
///
/// The pool's threads assemble rows in pieces, so no part is ever in memory as a whole. Throws IoError,
/// Stopped, and InputError for a feature that is not finite before or after conversion.
WrittenParts write_parts(const std::filesystem::path& directory, const PartSource& source, ThreadPool& pool,
                         const StopFlag& stop);

}  // namespace strata::partition
