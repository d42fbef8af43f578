// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "strata/cuda/stream.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/util/random.hpp"

namespace strata::sampling {

/// Nodes in device memory, whose number the host need not know. They may repeat, as in PickQuery.
struct DeviceFrontier {
  const NodeId* nodes = nullptr;
  const Count* count = nullptr;  ///< on the device
  Count bound = 0;               ///< at least the count
};

struct DeviceQuery {
  DeviceFrontier frontier;
  int fanout = 0;
  const BatchKey* key = nullptr;  ///< on the device: a recorded graph serves all batches
  std::uint32_t hop = 0;
};

/// Where a node's in-neighbors lie and the key of its choice (set only where there is something to choose).
struct DeviceRange {
  Count begin = 0, degree = 0;
  std::uint64_t key = 0;
};

/// Room for chosen picks, packed (`offsets`) or a fanout a node (`counts`).
template <typename Id>
struct DevicePickOutput {
  Id* neighbors = nullptr;
  EdgeId* edge_ids = nullptr;  ///< null: not asked for
  Count edge_bound = 0;        ///< at least the number of picks

  const Count* offsets = nullptr;  ///< [bound + 1]: the picks of node i begin at offsets[i]

  /// Where offsets is null: [bound] picks of node i, which begin at i * fanout; what lies behind them in its
  /// room is left alone. 0 for i from the number of nodes on.
  std::int32_t* counts = nullptr;
  Count* num_edges = nullptr;    ///< what the picks add up to is added to it
  std::uint32_t* met = nullptr;  ///< bit v is set where v was chosen; null: not wanted
};

/// Which neighbors a node gets, on a device: asynchronous on `stream`, allocates and synchronises nothing
/// once it has met its largest query, and reads what is of the batch from device memory. Calls are recorded
/// into CUDA graphs, so what the host computes must follow from the query's bounds alone.
///
/// A choice may depend on the key, the hop and on original ids, never on who asks or when. Nodes of other
/// machines (GraphView::owns) get no picks here. `Id` is the type of global ids in blocks' neighbors.
template <typename Id>
class DevicePickChooser {
 public:
  virtual ~DevicePickChooser() = default;
  /// Whether choose() can fill fixed-stride lists, without measure().
  virtual bool fills_strided(int fanout) const = 0;
  /// Whether a node never has more picks than the fanout. If not, a batch may have more than the sampler has
  /// room for: choose() then leaves out what lies beyond edge_bound.
  virtual bool bounded_by_fanout() const { return true; }
  /// counts[i] = picks of node i, 0 for i from the number of nodes to the bound (inclusive). plan [bound].
  virtual void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
                       const cuda::Stream& stream) = 0;
  /// `plan` as measure() left it; null with fixed-stride lists.
  virtual void choose(const DeviceQuery& query, const DeviceRange* plan, const DevicePickOutput<Id>& out,
                      const cuda::Stream& stream) = 0;
};

/// Makes a user's chooser for a view, for ids of 32 bits or, where the graph has more nodes than these can
/// tell apart, of 64.
struct DeviceChooserMaker {
  std::function<std::unique_ptr<DevicePickChooser<std::int32_t>>(const store::GraphView&)> narrow;
  std::function<std::unique_ptr<DevicePickChooser<std::int64_t>>(const store::GraphView&)> wide;

  template <typename Id>
  const auto& of() const {
    if constexpr (sizeof(Id) == sizeof(std::int32_t))
      return narrow;
    else
      return wide;
  }
};

}  // namespace strata::sampling
