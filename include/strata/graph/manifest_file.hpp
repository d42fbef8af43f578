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
  std::string dtype;  ///< "i64", "i32", "f32", "f16", "bf16", "u8"
  std::vector<Count> shape;
  std::uint64_t hash = 0;  ///< XXH3 of its bytes
  Count offset = 0;        ///< position of its bytes in the file
  Count block_rows = 0;    ///< rows of each block that kChecksums has a hash of; 0: none

  bool operator==(const DatasetRecord&) const = default;
};

/// The dataset of a part file that holds the XXH3 of each block of the other datasets.
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

  /// Whether a piece of the file can be checked on its own. Files of older builds have no block hashes.
  bool has_block_hashes() const { return !datasets.empty() && datasets.back().name == kChecksums; }
  bool operator==(const PartRecord&) const = default;
};

/// A constraint of the partitioning, and the sum of its weights in each part.
struct ConstraintRecord {
  std::string name;       ///< "nodes", "edges", "train"
  bool balanced = false;  ///< whether balance was asked for
  double imbalance = 0;   ///< as asked for: 0.03 allows a part to be 3 % above the mean
  std::vector<Count> weights;

  /// The largest part divided by the mean; 1 if all are empty.
  double balance() const;
  bool operator==(const ConstraintRecord&) const = default;
};

/// How a partition directory was made; no reader of parts depends on it.
struct BuildRecord {
  std::string program;  ///< "strata-partition 0.2.0, commit 1a2b3c4 (METIS 5.1.0, HDF5 1.10.8)"
  std::string input;    ///< as given
  std::string method;
  std::uint64_t seed = 0;
  CleaningReport cleaning;
};

/// All that manifest.json holds.
struct PartitionRecord {
  Manifest manifest;
  /// A hash of edges, weights, features as stored, labels and splits, by original id: the same for every
  /// partition of one graph. Empty in manifests that were written before it existed.
  std::string graph_digest = {};
  std::vector<PartRecord> parts;
  std::vector<ConstraintRecord> constraints;
  BuildRecord build;
};

/// File name of the manifest inside a partition directory.
inline constexpr const char* kManifestFile = "manifest.json";

/// `strata-partition build` writes to a folder beside "out" and renames it when it is complete; until then it
/// is called ".out.partial-XXXXXX". On file systems that cannot exchange two folders, the parts that --force
/// replaces are called ".out.partial-XXXXXX-old" between two renames.
inline constexpr const char* kStagingInfix = ".partial-";
inline constexpr const char* kSetAsideSuffix = "-old";

/// The folder of parts that a build set aside and then could not replace because it was killed; empty: none.
std::filesystem::path find_set_aside(const std::filesystem::path& directory);

/// The text of manifest.json: canonical JSON, whose last field is the XXH3 of all the others.
std::string format_manifest(const PartitionRecord& record);

/// Reverses format_manifest. `source` names the file in errors. Throws InputError if the text is not JSON,
/// not a manifest of Strata or of a newer version, if a field is missing or invalid, or if the checksum is
/// wrong.
PartitionRecord parse_manifest(const std::string& text, const std::filesystem::path& source);

/// Reads only DIR/manifest.json; the parts need not be there. Throws InputError.
PartitionRecord read_partition_record(const std::filesystem::path& directory);

/// Identifies the graph of a partition directory, however it was partitioned: its graph_digest; "build ID"
/// for parts from before there was one; for a planted graph, a hash of its specification. Throws InputError.
std::string read_graph_digest(const PartsOrigin& parts);

/// The program that made a partition directory, as its BuildRecord has it; empty for a planted graph. Throws
/// InputError.
std::string read_build_program(const PartsOrigin& parts);

}  // namespace strata::graph
