// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/graph_shape.hpp"

#include <fmt/format.h>

#include "strata/graph/part_file.hpp"
#include "strata/util/error.hpp"

namespace strata::plan {
namespace {

RowCode::Kind code_of(FeatureFormat format) {
  switch (format) {
    case FeatureFormat::stored:
      return RowCode::Kind::none;
    case FeatureFormat::i8:
      return RowCode::Kind::i8;
    case FeatureFormat::e4m3:
      return RowCode::Kind::e4m3;
    case FeatureFormat::i4:
      return RowCode::Kind::i4;
  }
  return RowCode::Kind::none;
}

}  // namespace

std::int64_t RegionSizes::edge_bytes() const { return id_bytes() + (edge_ids ? 8 : 0) + (weights ? 4 : 0); }

std::int64_t RegionSizes::bytes() const {
  Count sum = (num_lists() + 1) * 8 + local_edges * edge_bytes() + (num_nodes + aliases) * id_bytes();
  if (num_relations > 1) sum += (num_lists() + 1) * 8 + sublists * (8 + 4 + 2);
  sum += (num_train + local_valid + local_test) * 8 + (num_valid_edges + num_test_edges) * 24;
  if (train_clusters) sum += num_train * 4;
  if (in_degrees) sum += num_nodes * 4;
  sum += num_local * label_words * 4;
  return sum;
}

FeatureShape shape_in_memory(const graph::Manifest& manifest, FeatureFormat format) {
  const RowCode::Kind wanted = code_of(format);
  const RowCode& stored = manifest.feature_code;
  if (wanted == RowCode::Kind::none || wanted == stored.kind || manifest.feature_cols == 0)
    return {.cols = manifest.feature_cols, .dtype = manifest.feature_dtype, .part_rows = {}, .code = stored};
  if (stored)
    throw InputError(fmt::format("the features of \"{}\" are stored as {} and cannot be kept as {}",
                                 manifest.name, manifest.feature_type(), enum_name(format)),
                     "Leave --feature-format out, or build the parts with --features f32.");
  return {.cols = manifest.feature_cols,
          .dtype = DType::u8,
          .part_rows = {},
          .code = {.kind = wanted, .cols = manifest.feature_cols}};
}

Count feature_row_bytes(const graph::Manifest& manifest, FeatureFormat format) {
  return shape_in_memory(manifest, format).row_bytes();
}

std::int64_t least_host_bytes(const RegionSizes& sizes, const FeatureShape& features,
                              std::int64_t gpu_bytes) {
  return sizes.bytes() + std::max<std::int64_t>(0, features.rows() * features.row_bytes() - gpu_bytes);
}

}  // namespace strata::plan
