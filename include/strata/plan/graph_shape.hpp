// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/tensor/placement.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {
struct Manifest;
}

/// What a graph takes in memory, as far as a plan must know it.
namespace strata::plan {

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

/// Whether every machine keeps the structure of the whole graph, so that machines exchange only features.
enum class Replication : std::uint8_t {
  automatic,  ///< if it leaves a fifth of every machine's free memory
  on,
  off,
};

/// What feature rows are in memory.
enum class FeatureFormat : std::uint8_t {
  stored,  ///< as the parts or the graph have them
  i8,      ///< compressed while loading; see RowCode
  e4m3,
  i4,
};

}  // namespace strata::plan

namespace strata {

/// As plans, banners and messages call them. --placement writes a dash for each space.
template <>
inline constexpr auto enum_names<plan::GraphTensor> =
    std::to_array<EnumName<plan::GraphTensor>>({{plan::GraphTensor::indptr, "indptr"},
                                                {plan::GraphTensor::indices, "indices"},
                                                {plan::GraphTensor::weights, "edge weights"},
                                                {plan::GraphTensor::edge_ids, "edge ids"},
                                                {plan::GraphTensor::original_ids, "original ids"},
                                                {plan::GraphTensor::in_degrees, "in-degrees"},
                                                {plan::GraphTensor::features, "features"}});

template <>
inline constexpr auto enum_names<plan::Replication> = std::to_array<EnumName<plan::Replication>>(
    {{plan::Replication::automatic, "auto"}, {plan::Replication::on, "on"}, {plan::Replication::off, "off"}});

template <>
inline constexpr auto enum_names<plan::FeatureFormat> =
    std::to_array<EnumName<plan::FeatureFormat>>({{plan::FeatureFormat::stored, "stored"},
                                                  {plan::FeatureFormat::i8, "i8"},
                                                  {plan::FeatureFormat::e4m3, "e4m3"},
                                                  {plan::FeatureFormat::i4, "i4"}});

}  // namespace strata

namespace strata::plan {

/// The planner knows no graph: these two convert between its texts and the tensors.
inline std::string name_of(GraphTensor tensor) { return std::string(enum_name(tensor)); }
inline GraphTensor tensor_of(std::string_view name) {
  return enum_value<GraphTensor>(name, "the placement plan");
}

/// How wide ids of nodes are in lists: 4 or 8 bytes.
constexpr std::int64_t id_bytes_of(Count num_nodes) {
  return num_nodes > std::numeric_limits<std::int32_t>::max() ? 8 : 4;
}

/// Sizes of all that a machine keeps in host memory, except features.
struct RegionSizes {
  Count num_nodes = 0;
  NodeId first_node = 0;
  Count num_local = 0, local_edges = 0;
  Count sublists = 0, most_sublists = 0;  ///< of several relations: graph::Sublists, and the most of a node
  int num_relations = 1;
  Count num_train = 0, local_valid = 0, local_test = 0;
  Count num_valid_edges = 0, num_test_edges = 0;  ///< held out of all lists
  bool edge_ids = false, weights = false, in_degrees = false;
  bool train_clusters = false;
  Count label_words = 0;    ///< i32 words of a node's label; 0: there are no labels
  bool replicated = false;  ///< the lists of all nodes are here, and `local_edges` is the number of all edges
  Count aliases = 0;        ///< additional original ids, one per list of the halo

  NodeId first_list() const { return replicated ? 0 : first_node; }
  Count num_lists() const { return replicated ? num_nodes : num_local; }
  std::int64_t id_bytes() const { return id_bytes_of(num_nodes); }
  bool wide_nodes() const { return id_bytes() == 8; }
  std::int64_t edge_bytes() const;  ///< of an entry of `indices`, with what else there is of its edge
  std::int64_t bytes() const;
};

/// The feature rows of a machine, for planning.
struct FeatureShape {
  Count cols = 0;
  DType dtype = DType::f32;
  std::vector<Count> part_rows;  ///< of each hosted part, hottest row first; then of the halo, if any
  std::span<const std::uint32_t> halo_occurrences =
      {};               ///< of its rows, in this machine's lists; empty: no halo
  bool padded = false;  ///< rows begin at multiples of 128 bytes
  RowCode code = {};    ///< as tensor::TensorSpec has it

  Count rows() const { return std::accumulate(part_rows.begin(), part_rows.end(), Count{0}); }
  tensor::TensorSpec spec() const {
    return {.name = {}, .rows = rows(), .cols = cols, .dtype = dtype, .code = code, .padded = padded};
  }
  std::int64_t row_bytes() const { return static_cast<std::int64_t>(spec().row_bytes()); }
  std::int64_t row_pitch() const { return static_cast<std::int64_t>(spec().row_pitch()); }
  FeatureShape with_padding() const {
    FeatureShape shape = *this;
    shape.padded = true;
    return shape;
  }
};

/// The manifest's features as they are kept, without part_rows. Throws InputError for features that are
/// compressed otherwise, or not of floats.
FeatureShape shape_in_memory(const graph::Manifest& manifest, FeatureFormat format);
/// Bytes of a row in memory. Throws as shape_in_memory().
Count feature_row_bytes(const graph::Manifest& manifest, FeatureFormat format);

/// What every placement needs of the host's memory: all structure, and the features that `gpu_bytes` of all
/// GPUs together cannot hold.
std::int64_t least_host_bytes(const RegionSizes& sizes, const FeatureShape& features, std::int64_t gpu_bytes);

/// Replication::automatic: whether a machine that needs so much with the structure of the whole graph keeps a
/// fifth of its free memory.
constexpr bool leaves_enough(std::int64_t bytes, std::int64_t free_bytes) {
  return static_cast<double>(bytes) <= 0.8 * static_cast<double>(free_bytes);
}

}  // namespace strata::plan
