// SPDX-License-Identifier: Apache-2.0
#include "parts/part_layout.hpp"

#include <fmt/format.h>

#include <tuple>

#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

/// Rows per block: long enough that hashes take little room and time; short enough that a block stays in the
/// cache while it is hashed, and can be read for a few rows.
Count block_rows_of(Count row_bytes) {
  constexpr Count kMostBlockBytes = Count{64} << 10;
  Count rows = kMostBlockRows;
  while (rows > 1 && rows * row_bytes > kMostBlockBytes) rows /= 2;
  return rows;
}

}  // namespace

Count Extent::elements() const {
  Count product = 1;
  for (const Count dim : shape) product *= dim;
  return shape.empty() ? 0 : product;
}

Count Extent::element_bytes() const { return static_cast<Count>(size_of(parse_dtype(dtype))); }

Count row_elements(const Extent& extent) {
  if (extent.absent()) return 0;
  return extent.shape.size() > 1 ? extent.shape[1] : 1;
}

Count inner_nodes(const Manifest& manifest, int part) {
  const auto offsets = manifest.book.offsets();
  return offsets[at(part) + 1] - offsets[at(part)];
}

SplitFields fields_of(Split split) {
  switch (split) {
    case Split::train:
      return {Field::train_row, Field::train_rank};
    case Split::valid:
      return {Field::valid_row, Field::valid_rank};
    case Split::test:
      return {Field::test_row, Field::test_rank};
  }
  throw Error("unknown split");
}

PartLayout::PartLayout(const Manifest& manifest, const PartShape& shape) : extents(at(Field::count)) {
  const Count inner = inner_nodes(manifest, shape.part);
  const std::string nodes = manifest.nodes_path(), edges = manifest.edges_path();
  auto& self = *this;
  self[Field::indptr] = {edges + "indptr", "i64", {inner + 1}};
  self[Field::indices] = {edges + "indices", "i64", {shape.num_edges}};
  self[Field::edge_ids] = {edges + "edge_id", "i64", {shape.num_edges}};
  self[Field::weights] = {edges + "weight", "f32", {}};
  if (manifest.has_edge_weights) self[Field::weights].shape = {shape.num_edges};
  self[Field::original_ids] = {nodes + "original_id", "i64", {inner}};
  const bool targets = !manifest.targets.empty();
  self[Field::labels] = {nodes + (targets ? "target" : "label"), targets ? "f32" : "i32", {}};
  if (manifest.has_labels) self[Field::labels].shape = {inner};
  if (manifest.has_labels && (manifest.multi_label || targets))
    self[Field::labels].shape = {inner, manifest.label_words()};
  self[Field::clusters] = {nodes + "cluster", "i32", {}};
  if (manifest.num_clusters > 0) self[Field::clusters].shape = {inner};
  self[Field::features] = {nodes + "feat", std::string(name_of(manifest.feature_dtype)), {}};
  if (manifest.feature_cols > 0)
    self[Field::features].shape = {
        inner, manifest.feature_code ? manifest.feature_code.row_bytes() : manifest.feature_cols};
  const auto add_split = [&](Field row, Field rank, const std::string& name, Count size) {
    self[row] = {nodes + "split/" + name + "/row", "i64", {size}};
    self[rank] = {nodes + "split/" + name + "/rank", "i64", {size}};
  };
  add_split(Field::train_row, Field::train_rank, "train", shape.num_train);
  add_split(Field::valid_row, Field::valid_rank, "valid", shape.num_valid);
  add_split(Field::test_row, Field::test_rank, "test", shape.num_test);
  for (const auto& [field, name, size] : {std::tuple(Field::valid_edges, "valid", shape.num_valid_edges),
                                          {Field::test_edges, "test", shape.num_test_edges}}) {
    self[field] = {edges + "split/" + name, "i64", {}};
    if (manifest.holds_edges_out()) self[field].shape = {size, kHeldEdgeIds};
  }
  for (Extent& extent : extents)
    if (!extent.absent()) extent.block_rows = block_rows_of(row_elements(extent) * extent.element_bytes());
  self[Field::checksums] = {kChecksums, "i64", {blocks_before(Field::checksums)}};
}

Count PartLayout::blocks_before(Field field) const {
  Count blocks = 0;
  for (std::size_t i = 0; i < at(field); ++i) blocks += extents[i].blocks();
  return blocks;
}

}  // namespace strata::graph
