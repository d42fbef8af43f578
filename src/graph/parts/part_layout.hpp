// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/manifest_file.hpp"

namespace strata::graph {

inline constexpr const char* kPartFormat = "strata-part";
inline constexpr const char* kManifestFormat = "strata-partition";

/// The datasets of a part; `count` is their number.
enum class Field {
  indptr,
  indices,
  edge_ids,
  weights,
  original_ids,
  labels,
  clusters,
  features,
  train_row,
  train_rank,
  valid_row,
  valid_rank,
  test_row,
  test_rank,
  valid_edges,
  test_edges,
  checksums,  ///< XXH3 of each block of each dataset above, in this order
  count
};

/// A dataset of a part, and where its bytes lie in the file. absent() says that the part does not have it.
struct Extent {
  std::string name, dtype;
  std::vector<Count> shape;
  Count offset = 0;
  Count block_rows = 0;  ///< rows of each block that has a hash; 0: there are no hashes

  bool absent() const { return shape.empty(); }
  Count elements() const;
  Count element_bytes() const;
  Count bytes() const { return elements() * element_bytes(); }
  Count row_bytes() const { return rows() == 0 ? 0 : bytes() / rows(); }
  Count rows() const { return absent() ? 0 : shape.front(); }
  Count block_bytes() const { return block_rows * row_bytes(); }
  Count blocks() const { return block_rows == 0 ? 0 : (rows() + block_rows - 1) / block_rows; }
};

/// Elements per row: the second dimension, 1 if there is none, 0 for an absent dataset.
Count row_elements(const Extent& extent);

/// Extents of all fields, without offsets.
struct PartLayout {
  std::vector<Extent> extents;  ///< by Field
  PartLayout(const Manifest& manifest, const PartShape& shape);

  /// Blocks of all datasets before `field`, which is where its blocks begin in the checksums.
  Count blocks_before(Field field) const;
  Extent& operator[](Field f) { return extents[at(f)]; }
  const Extent& operator[](Field f) const { return extents[at(f)]; }
};

struct SplitFields {
  Field row, rank;
};
SplitFields fields_of(Split split);

inline constexpr Count kHeldEdgeIds =
    3;  ///< of a row of valid_edges and test_edges: source, destination, edge

/// Number of inner nodes of a part.
Count inner_nodes(const Manifest& manifest, int part);

/// Opens a part file, checks its attributes and the type, layout and shape of its datasets against the
/// manifest, and returns their places. Files of older builds have no checksums. Throws InputError naming file
/// and dataset.
PartLayout open_layout(const std::filesystem::path& path, const Manifest& manifest, int part);

/// Creates the file with all datasets, empty, and fills in the offsets. Throws IoError.
void create_file(const std::filesystem::path& path, const Manifest& manifest, int part, PartLayout& layout);

}  // namespace strata::graph
