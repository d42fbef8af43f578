// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::graph {

/// A dataset of a part file as the manifest records it.
struct DatasetRecord {
  std::string name;   ///< path inside the file: "/nodes/node/label"
  std::string dtype;  ///< "i64", "i32", "f32", "f16", "bf16"
  std::vector<Count> shape;
  std::uint64_t hash = 0;  ///< XXH3 of its bytes
  Count offset = 0;        ///< of its bytes in the file
  Count block_rows = 0;    ///< of the blocks whose hashes kChecksums has; 0: it has none

  bool operator==(const DatasetRecord&) const = default;
};

/// The dataset of a part that has the XXH3 of each block of the others.
inline constexpr const char* kChecksums = "/checksums/xxh3";

/// A part file as the manifest records it.
struct PartRecord {
  std::string file;  ///< name inside the directory
  Count bytes = 0;
  std::uint64_t hash = 0;          ///< XXH3 of the whole file
  std::uint64_t outside_hash = 0;  ///< XXH3 of all bytes outside the datasets
  Count num_edges = 0;
  Count halo_nodes = 0;  ///< distinct in-neighbors that other parts own
  Count cut_edges = 0;   ///< edges whose source another part owns
  std::vector<DatasetRecord> datasets;

  /// Does it say enough to check a piece of the file on its own? Files of older builds have no block hashes.
  bool has_block_hashes() const { return !datasets.empty() && datasets.back().name == kChecksums; }
  bool operator==(const PartRecord&) const = default;
};

/// What a constraint's weights sum to, by part.
struct ConstraintRecord {
  std::string name;       ///< "nodes", "edges", "train"
  bool balanced = false;  ///< was it asked to be?
  double imbalance = 0;   ///< asked: 0.03 allows a part 3 % above the mean
  std::vector<Count> weights;

  /// Largest part divided by the mean; 1 where all are empty.
  double balance() const;
  bool operator==(const ConstraintRecord&) const = default;
};

/// How a partition directory was made; no reader of parts depends on it.
struct BuildRecord {
  std::string program;  ///< "strata-partition 0.1.0"
  std::string input;    ///< as given
  std::string method;
  std::uint64_t seed = 0;
  CleaningReport cleaning;
};

/// All that manifest.json holds.
struct PartitionRecord {
  Manifest manifest;
  /// The same for every partition of one graph: a hash of edges, weights, features as stored, labels and
  /// splits by original id. Empty in manifests that are older than it.
  std::string graph_digest = {};
  std::vector<PartRecord> parts;
  std::vector<ConstraintRecord> constraints;
  BuildRecord build;
};

/// File name of the manifest inside a partition directory.
inline constexpr const char* kManifestFile = "manifest.json";

/// What `strata-partition build` calls folders beside "out" until they are "out": ".out.partial-XXXXXX". On
/// file systems that cannot exchange two folders, the parts that --force replaces are called
/// ".out.partial-XXXXXX-old" for the moment between two renames.
inline constexpr const char* kStagingInfix = ".partial-";
inline constexpr const char* kSetAsideSuffix = "-old";

/// The parts that a build set aside and could not replace, because it was killed just then; empty: none.
std::filesystem::path find_set_aside(const std::filesystem::path& directory);

/// The text of manifest.json: canonical JSON, whose last field is the XXH3 of all the others.
std::string format_manifest(const PartitionRecord& record);

/// Reverses format_manifest. `source` names the file in errors. Throws InputError: not JSON, foreign, newer
/// version, a missing or unfit field, a checksum that does not fit.
PartitionRecord parse_manifest(const std::string& text, const std::filesystem::path& source);

/// Reads DIR/manifest.json alone; the parts need not be there. Throws InputError.
PartitionRecord read_partition_record(const std::filesystem::path& directory);

/// What tells the graph of a partition directory from others, in whatever parts it is: its graph_digest, or
/// "build ID" of parts that are older than that; of a planted graph, a hash of what was asked for. Throws
/// InputError.
std::string read_graph_digest(const std::filesystem::path& directory);

}  // namespace strata::graph
