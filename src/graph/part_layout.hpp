#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/manifest_file.hpp"
#include "strata/graph/part_writer.hpp"

namespace strata::graph {

inline constexpr const char* kPartFormat = "strata-part";
inline constexpr const char* kManifestFormat = "strata-partition";

/// The datasets of a part; `count` is the end of the list.
enum class Field {
  indptr,
  indices,
  edge_ids,
  weights,
  original_ids,
  labels,
  features,
  train_row,
  train_rank,
  valid_row,
  valid_rank,
  test_row,
  test_rank,
  count
};

/// A dataset of a part and where its bytes lie in the file. absent(): the part has none of it.
struct Extent {
  std::string name, dtype;
  std::vector<Count> shape;
  Count offset = 0;

  bool absent() const { return shape.empty(); }
  Count elements() const;
  Count element_bytes() const;
  Count bytes() const { return elements() * element_bytes(); }
};

/// Elements of a row: of the second dimension, 1 without one, 0 of an absent dataset.
Count row_elements(const Extent& extent);

/// Extents of all fields, without offsets.
struct PartLayout {
  std::vector<Extent> extents;  ///< by Field
  PartLayout(const Manifest& manifest, const PartShape& shape);
  Extent& operator[](Field f) { return extents[static_cast<std::size_t>(f)]; }
  const Extent& operator[](Field f) const { return extents[static_cast<std::size_t>(f)]; }
};

struct SplitFields {
  Field row, rank;
};
SplitFields fields_of(PartReader::Split split);

/// Number of inner nodes of a part.
Count inner_nodes(const Manifest& manifest, int part);

/// Opens a part file, checks its attributes and the type, layout and shape of its datasets against the
/// manifest, and gives their places. Throws InputError naming file and dataset.
PartLayout open_layout(const std::filesystem::path& path, const Manifest& manifest, int part);

/// Creates the file with all datasets, empty, and fills in the offsets. Throws IoError.
void create_file(const std::filesystem::path& path, const Manifest& manifest, int part, PartLayout& layout);

}  // namespace strata::graph
