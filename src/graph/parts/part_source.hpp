// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/graph/part_file.hpp"

namespace strata::graph {

/// The source that a PartReader gets a part from: a file, or a formula. It checks ranges.
class PartSource {
 public:
  virtual ~PartSource() = default;
  virtual Count num_inner() const = 0;
  virtual Count num_edges() const = 0;
  virtual void read_indptr(Count first, Count count, Count* out, RecentBlocks* recent) const = 0;
  virtual void read_indices(Count first, Count count, NodeId* out, RecentBlocks* recent) const = 0;
  virtual void read_edge_ids(Count first, Count count, EdgeId* out, RecentBlocks* recent) const = 0;
  virtual void read_weights(Count first, Count count, float* out, RecentBlocks* recent) const = 0;
  virtual void read_original_ids(Count first, Count count, NodeId* out) const = 0;
  virtual void read_labels(Count first, Count count, std::int32_t* out) const = 0;
  virtual void read_clusters(Count first, Count count, std::int32_t* out, RecentBlocks* recent) const = 0;
  virtual void read_features(Count first_row, Count num_rows, void* out, RecentBlocks* recent) const = 0;
  virtual Count feature_block_rows() const = 0;
  virtual PartData::SplitRows read_split(Split split) const = 0;
  virtual Count split_size(Split split) const = 0;
  virtual void read_split_rows(Split split, Count first, Count count, Count* out) const = 0;
  virtual void read_split_ranks(Split split, Count first, Count count, Count* out) const = 0;
  virtual HeldEdges read_held_edges(Split) const { return {}; }
};

struct PartReader::State {
  std::unique_ptr<PartSource> source;
};

}  // namespace strata::graph
