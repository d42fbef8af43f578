// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/label_shape.hpp"
#include "strata/util/row_code.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Maps global ids to the parts that own them: part k has [offsets[k], offsets[k+1]). A value; cheap to copy.
///
///     offsets {0, 3, 7}: part_of(2) == 0, part_of(3) == 1, local_of(5) == 2, global_of(1, 2) == 5
class PartitionBook {
 public:
  PartitionBook() : offsets_{0} {}
  /// Throws InputError unless `offsets` begins with 0 and never decreases.
  explicit PartitionBook(std::vector<NodeId> offsets);

  Count num_nodes() const { return offsets_.back(); }
  int num_parts() const { return static_cast<int>(offsets_.size()) - 1; }
  std::span<const NodeId> offsets() const { return offsets_; }

  int part_of(NodeId global) const;  ///< REQUIRES: 0 <= global < num_nodes()
  Count local_of(NodeId global) const { return global - offsets_[at(part_of(global))]; }
  NodeId global_of(int part, Count local) const { return offsets_[at(part)] + local; }

 private:
  std::vector<NodeId> offsets_;
};

/// The first part of each of `num_machines` machines, and the end. Each machine gets a contiguous run; sizes
/// differ by at most one, and the larger runs come first. {0, 2, 3} for 3 parts on 2 machines. Throws
/// InputError if there are more machines than parts.
std::vector<int> parts_of_machines(int num_parts, int num_machines);

struct PartRecord;

enum class Split : std::uint8_t { train, valid, test };

/// The manifest of a partition directory: what every rank must know before it opens a part.
struct Manifest {
  /// The newest that this library reads, for graphs with targets. Those of one type are else written as version
  /// 1, which older programs read, and of several as 2.
  static constexpr int kVersion = 3;
  int version() const { return !targets.empty() ? kVersion : types.typed() ? 2 : 1; }
  std::string name;
  std::string build_id;  ///< the same in every part of one build
  PartitionBook book;
  Count num_edges = 0;
  GraphTypes types = {};
  bool undirected = false;
  bool has_edge_weights = false;
  Count feature_cols = 0;  ///< 0: none
  DType feature_dtype = DType::f32;
  RowCode feature_code = {};  ///< of compressed features; their feature_dtype is u8
  Count num_classes = 0;
  bool has_labels = false;
  bool multi_label = false;
  std::vector<TargetScale> targets = {};  ///< of each column; empty: labels are classes
  Count num_train = 0, num_valid = 0, num_test = 0;
  Count num_valid_edges = 0, num_test_edges = 0;  ///< held out of the lists; see EdgeSplits
  /// Types whose rows and lists every machine keeps a copy of, ascending.
  std::vector<std::size_t> replicated_types = {};
  Count num_clusters = 0;  ///< in each part; 0: none
  /// The records of the parts' bytes, by part; null if there is no manifest.json (generated parts).
  std::shared_ptr<const std::vector<PartRecord>> part_records = {};

  /// Whether all that is read of the parts can be checked against hashes of blocks. Older builds have none.
  bool has_block_hashes() const;
  bool holds_edges_out() const { return num_valid_edges + num_test_edges > 0; }
  Count feature_row_bytes() const;
  std::string nodes_path() const;         ///< in a part file: "/nodes/node/", or "/nodes/" of several types
  std::string edges_path() const;         ///< "/edges/node__to__node/", or "/edges/" of several relations
  std::string_view feature_type() const;  ///< "f32", "f16", "bf16", "i8", "e4m3", "i4" or "vq"
  LabelShape label_shape() const { return {num_classes, multi_label, static_cast<Count>(targets.size())}; }
  Count label_words() const { return label_shape().words(); }                            ///< of a node
  Count outputs() const { return targets.empty() ? num_classes : std::ssize(targets); }  ///< that a model has
};

/// Reads and checks DIR/manifest.json and the presence of its parts, or makes it for a planted graph. Throws
/// InputError with the remedy if it is no partition directory, not one of Strata, or of a newer version, or
/// if a part is missing.
Manifest read_manifest(const PartsOrigin& parts);

std::filesystem::path part_path(const std::filesystem::path& directory, int part);

/// Throws InputError that names the part: `what` is wrong in it, though no hash differs.
[[noreturn]] void refuse_damaged(const PartsOrigin& parts, int part, const std::string& what);

/// One part as it lies in memory while it is being written. Rows are local ids (hottest first); ids in
/// `indices` are global.
struct PartData {
  int part = 0;
  std::vector<Count> indptr;                ///< [inner + 1]
  std::vector<NodeId> indices;              ///< [edges], each list in the order of original ids
  std::vector<EdgeId> edge_ids;             ///< [edges]
  std::vector<float> weights = {};          ///< [edges]; empty: none
  std::vector<NodeId> original_ids;         ///< [inner]
  std::vector<std::int32_t> labels;         ///< [inner, label_words()]; empty: none
  std::vector<std::int32_t> clusters = {};  ///< [inner], in [0, num_clusters); empty: none
  struct SplitRows {                        ///< of one split, ascending by original id
    std::vector<Count> rows;                ///< local ids
    std::vector<Count> ranks;               ///< position in the whole graph's split, ordered by original id
  } train, valid, test;
  EdgeSplits edge_splits = {};  ///< edges to the part's nodes
};

/// Whether everything read from a part file is checked against the hashes of its build.
enum class Verify { on, off };

/// The most rows of a block in any dataset, and those of all datasets with short rows. Readings that begin at
/// multiples of it read and check each block once.
inline constexpr Count kMostBlockRows = 8192;

/// Remembers the last block of each dataset that was read in part, so that many small readings in ascending
/// order read and check each block once. Useful only if blocks are checked. For one thread at a time.
class RecentBlocks {
  friend class CheckedFile;
  struct Block {
    const void* file = nullptr;
    Count number = -1;
    std::vector<std::byte> bytes;
  };
  std::vector<Block> by_field_;
};

/// One open part file. An owner of its descriptor; where a graph has more parts than a process may well keep
/// open, the file is opened for each reading instead. HDF5 is used only by open(), by one thread at a time,
/// to find where the datasets lie. The `read_*` calls may come from several threads at once.
///
/// The `read_*` calls copy a range straight into the caller's memory and convert nothing.
/// They throw IoError or InputError naming the file and dataset.
///
/// With Verify::on whole blocks are read (at most 64 KiB, or one row), and InputError is thrown before a byte
/// is used that differs from what was written; open() checks the bytes outside the datasets. Parts whose
/// manifest has no block hashes are read unchecked.
class PartReader {
 public:
  /// Checks format, version, build id, part number and the shapes of all datasets against the manifest.
  static PartReader open(const PartsOrigin& parts, const Manifest& manifest, int part,
                         Verify verify = Verify::on);
  PartReader(PartReader&&) noexcept;
  PartReader& operator=(PartReader&&) noexcept;
  ~PartReader();

  Count num_inner() const;
  Count num_edges() const;

  /// Reads some of the num_inner() + 1 entries.
  void read_indptr(Count first, Count count, Count* out, RecentBlocks* recent = nullptr) const;
  void read_indices(Count first, Count count, NodeId* out, RecentBlocks* recent = nullptr) const;
  void read_edge_ids(Count first, Count count, EdgeId* out, RecentBlocks* recent = nullptr) const;
  void read_weights(Count first, Count count, float* out, RecentBlocks* recent = nullptr) const;
  void read_original_ids(Count first, Count count, NodeId* out) const;
  void read_labels(Count first, Count count, std::int32_t* out) const;  ///< of `count` nodes
  /// Reads the cluster of each row within the part; refuses numbers out of range.
  void read_clusters(Count first, Count count, std::int32_t* out, RecentBlocks* recent = nullptr) const;
  std::vector<std::int32_t> read_clusters_of(std::span<const Count> rows) const;  ///< rows in any order
  /// Reads rows in the manifest's dtype, or its code.
  void read_features(Count first_row, Count num_rows, void* out, RecentBlocks* recent = nullptr) const;
  Count feature_block_rows() const;  ///< rows per block; readings of whole blocks are the cheapest
  PartData::SplitRows read_split(Split split) const;
  Count split_size(Split split) const;
  void read_split_rows(Split split, Count first, Count count, Count* out) const;
  void read_split_ranks(Split split, Count first, Count count, Count* out) const;
  /// The edges of a split that are held out of the part's lists; of Split::train there are none.
  HeldEdges read_held_edges(Split split) const;

 private:
  struct State;
  explicit PartReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The edges of all parts that are held out of their lists, as EdgeSplits orders them. Throws InputError for
/// edges that the graph cannot have, and as PartReader.
EdgeSplits read_edge_splits(const PartsOrigin& parts, const Manifest& manifest, Verify verify = Verify::on);

}  // namespace strata::graph

namespace strata {

template <>
inline constexpr auto enum_names<graph::Split> =
    std::to_array<EnumName<graph::Split>>({{graph::Split::train, "train"},
                                           {graph::Split::valid, "valid"},
                                           {graph::Split::valid, "val"},
                                           {graph::Split::test, "test"}});

}  // namespace strata
