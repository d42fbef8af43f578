// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
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

/// What was counted of the types of a graph, for people; no reader of parts depends on it.
struct TypeFacts {
  struct Nodes {
    Count labelled = 0, train = 0, valid = 0, test = 0;
    bool operator==(const Nodes&) const = default;
  };
  std::vector<Nodes> nodes;              ///< by type
  std::vector<Count> largest_in_degree;  ///< by relation
  bool operator==(const TypeFacts&) const = default;
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
  TypeFacts type_facts = {};  ///< empty: nobody counted, or there are no types
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

/// The types of a graph as text, for other ranks, and back.
std::string format_types(const GraphTypes& types);
GraphTypes parse_types(const std::string& text);

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

/// The sizes that, with the manifest, fix the layout of one part file.
struct PartShape {
  int part = 0;
  Count num_edges = 0;
  Count num_train = 0, num_valid = 0, num_test = 0;  ///< split members among its inner nodes
  Count num_valid_edges = 0, num_test_edges = 0;     ///< held out of its lists
};

/// One part file that is being written. It keeps no file open between calls.
///
/// HDF5 lays the file out once. Its room on disk is then reserved, so that a full disk shows at once, and
/// plain writes put the data into their places. Several threads may therefore call `write_*` at once, for
/// disjoint ranges in any order. All calls throw IoError naming the file.
class PartWriter {
 public:
  /// Creates part_path(directory, shape.part). `manifest` must be complete, except for what finish() reports.
  static PartWriter create(const std::filesystem::path& directory, const Manifest& manifest,
                           const PartShape& shape);
  PartWriter(PartWriter&&) noexcept;
  PartWriter& operator=(PartWriter&&) noexcept;
  ~PartWriter();

  void write_indptr(Count first, std::span<const Count> values) const;
  void write_indices(Count first, std::span<const NodeId> values) const;
  void write_edge_ids(Count first, std::span<const EdgeId> values) const;
  void write_weights(Count first, std::span<const float> values) const;
  void write_original_ids(Count first, std::span<const NodeId> values) const;
  void write_labels(Count first, std::span<const std::int32_t> values) const;
  void write_clusters(Count first, std::span<const std::int32_t> values) const;
  /// Writes whole rows of the manifest's dtype.
  void write_features(Count first_row, std::span<const std::byte> rows) const;
  void write_split(Split split, const PartData::SplitRows& rows) const;
  void write_held_edges(const EdgeSplits& edges) const;

  /// Starts writing the file's pages to disk without waiting for it.
  void start_flush() const;

  /// Waits until the file is on disk and hashes it. The caller sets `halo_nodes` and `cut_edges` of the
  /// result.
  ///
  /// Throws Error if not every element of every dataset was written.
  PartRecord finish() const;

 private:
  struct State;
  explicit PartWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes a whole part from memory: `features` holds its rows, hottest first, in the manifest's dtype.
PartRecord write_part(const std::filesystem::path& directory, const Manifest& manifest, const PartData& data,
                      std::span<const std::byte> features);

/// Writes DIR/manifest.json atomically. Call it last: a directory without it does not open.
void write_manifest(const std::filesystem::path& directory, const PartitionRecord& record);

/// Recomputes what finish() reported, from the bytes on disk. read(), if given, is called with the number of
/// bytes that were read since its last call. Throws IoError or InputError.
PartRecord hash_part(const std::filesystem::path& directory, const Manifest& manifest, int part,
                     const std::function<void(Count)>& read = {});

}  // namespace strata::graph
