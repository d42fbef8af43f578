// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "strata/util/enum_names.hpp"

namespace strata::store {

/// The arrays of a graph that may lie on GPUs.
enum class GraphTensor : std::uint8_t {
  indptr,
  indices,
  weights,
  edge_ids,
  original_ids,
  in_degrees,
  features
};

}  // namespace strata::store

namespace strata {

/// As plans, banners and messages call them. --placement writes a dash for each space.
template <>
inline constexpr auto enum_names<store::GraphTensor> =
    std::to_array<EnumName<store::GraphTensor>>({{store::GraphTensor::indptr, "indptr"},
                                                 {store::GraphTensor::indices, "indices"},
                                                 {store::GraphTensor::weights, "edge weights"},
                                                 {store::GraphTensor::edge_ids, "edge ids"},
                                                 {store::GraphTensor::original_ids, "original ids"},
                                                 {store::GraphTensor::in_degrees, "in-degrees"},
                                                 {store::GraphTensor::features, "features"}});

}  // namespace strata

namespace strata::store {

/// The planner knows no graph: these two convert between its texts and the tensors.
inline std::string name_of(GraphTensor tensor) { return std::string(enum_name(tensor)); }
inline GraphTensor tensor_of(std::string_view name) {
  return enum_value<GraphTensor>(name, "the placement plan");
}

}  // namespace strata::store
