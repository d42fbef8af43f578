// SPDX-License-Identifier: Apache-2.0
#include "placement/feature_shape.hpp"

#include <fmt/format.h>

#include "strata/util/error.hpp"

namespace strata::store {
namespace {

RowCode::Kind code_of(FeatureFormat format) {
  switch (format) {
    case FeatureFormat::stored:
      return RowCode::Kind::none;
    case FeatureFormat::i8:
      return RowCode::Kind::i8;
    case FeatureFormat::i4:
      return RowCode::Kind::i4;
  }
  return RowCode::Kind::none;
}

}  // namespace

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

}  // namespace strata::store
