// SPDX-License-Identifier: Apache-2.0
#include "placement/graph_placement.hpp"

namespace strata::store {

std::int64_t GraphPlacement::host_feature_bytes(const FeatureShape& shape) const {
  Count host_rows = 0;
  for (const tensor::Segment& s : features.segments) host_rows += s.host;
  const FeatureShape laid_out{
      .cols = shape.cols, .dtype = shape.dtype, .part_rows = {}, .padded = layout.padded, .code = shape.code};
  return host_rows * laid_out.row_pitch();
}

}  // namespace strata::store
