// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/cuda/stream.hpp"
#include "strata/sampling/neighbor_chooser.hpp"

namespace strata::sampling {

/// Gets the picks of other machines' nodes for a sampler on a GPU. In each hop, call ask(), then
/// place_counts() before the counts are scanned if lists are packed, and place_picks() after the picks of
/// local nodes were chosen.
template <typename Id>
class DeviceNeighborExchange {
 public:
  virtual ~DeviceNeighborExchange() = default;

  /// Asks other machines for the picks of the query's remote nodes, and answers their requests; the batch has
  /// room for `edge_bound` picks of the hop. Collective.
  virtual void ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser, Count edge_bound,
                   const cuda::Stream& stream) = 0;
  /// Sets counts[i] to the number of picks of node i, for the remote nodes.
  virtual void place_counts(Count* counts, const cuda::Stream& stream) = 0;
  /// Writes the remote nodes' picks, which are packed or have a fixed stride, and marks them in out.met if it
  /// is set. With fixed stride it also sets their counts and adds to *out.num_edges.
  virtual void place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) = 0;
  /// Ends a batch.
  virtual void agree(const cuda::Stream& /*stream*/) {}
};

}  // namespace strata::sampling
