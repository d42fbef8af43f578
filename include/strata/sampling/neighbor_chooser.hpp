// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// The nodes that get neighbors at one hop, and the key of their random choices.
struct PickQuery {
  /// Global ids. A node of another machine gets no neighbors here. A node may occur several times, because
  /// several ranks ask at once; every occurrence gets the same neighbors.
  std::span<const NodeId> nodes;
  int fanout = 0;  ///< -1: all neighbors
  BatchKey key;
  std::uint32_t hop = 0;  ///< counted from the seeds
  /// Ascending positions in GraphView::indices of entries that are not to be chosen. Choices are then made
  /// among the others, so that a list still fills its fanout; lists without such entries get the same picks.
  std::span<const Count> excluded = {};
};

/// The neighbors of a list of nodes, packed in the order of the list.
///
///     nodes {7, 3} with neighbors 7 <- {3, 9}, 3 <- {5}:   counts {2, 1}   neighbors {3, 9, 5}
struct ChosenNeighbors {
  std::vector<Count> counts;      ///< [nodes]
  std::vector<NodeId> neighbors;  ///< global ids of any nodes of the graph
  std::vector<EdgeId> edge_ids;   ///< one per neighbor if the sampler was asked for edge ids, else empty
};

/// Decides which neighbors a frontier gets; derive from it for a sampler of your own. See
/// SamplerOptions::chooser.
///
/// Training promises the same batches for every number of ranks, machines and parts. A choice may therefore
/// depend on the query's key and hop and on original ids, but never on the asking rank or the time;
/// strata/util/random.hpp has keyed randomness. The owners of remote nodes choose for them, with the same
/// key.
class NeighborChooser {
 public:
  virtual ~NeighborChooser() = default;
  /// Fills `out`, which may still hold the neighbors of an earlier hop. Called by one thread at a time. An
  /// exception ends the run.
  virtual void choose(const PickQuery& query, ChosenNeighbors& out) = 0;
};

/// Nodes in device memory; the host need not know how many.
struct DeviceFrontier {
  const NodeId* nodes = nullptr;
  const Count* count = nullptr;  ///< on the device
  Count bound = 0;               ///< at least the count
  bool distinct = true;          ///< false: a node may occur several times, as in PickQuery
};

/// PickQuery::excluded in device memory.
struct DeviceExcluded {
  const Count* entries = nullptr;
  Count count = 0;
};

struct DeviceQuery {
  DeviceFrontier frontier;
  int fanout = 0;
  const BatchKey* key = nullptr;  ///< on the device, so that one recorded graph serves all batches
  std::uint32_t hop = 0;
  const DeviceExcluded* excluded = nullptr;          ///< on the device, too; null: nothing is excluded
  const DeviceExcluded* excluded_of_halo = nullptr;  ///< the same of lists of other machines' nodes
};

/// The range of a node's in-neighbors, and the key of its random choice (set only if there is one to make).
struct DeviceRange {
  Count begin = 0, degree = 0;
  std::uint64_t key = 0;
  /// Of DeviceQuery::excluded, those of this list; and where the list, which may be a copy, lies in
  /// GraphView::indices.
  std::int32_t first_excluded = 0, num_excluded = 0;
  Count origin = 0;

  STRATA_HOST_DEVICE Count choices() const { return degree - num_excluded; }
};

/// Room for the picks: packed (`offsets`), or `fanout` entries per node (`counts`).
template <typename Id>
struct DevicePickOutput {
  Id* neighbors = nullptr;
  EdgeId* edge_ids = nullptr;  ///< null: not wanted
  Count edge_bound = 0;        ///< at least the number of picks

  /// [bound + 1]: the picks of node i begin at offsets[i]; null: use `counts`
  const Count* offsets = nullptr;

  /// Used if `offsets` is null: [bound] numbers of picks. The picks of node i begin at i * fanout, and the
  /// rest of its room is left as it is. Entries from the number of nodes on are set to 0.
  std::int32_t* counts = nullptr;
  Count* num_edges = nullptr;    ///< the number of all picks is added to it
  std::uint32_t* met = nullptr;  ///< bit v is set where v was chosen; null: not wanted
};

/// Decides on a GPU which neighbors a node gets. Calls are asynchronous on `stream`; they neither allocate
/// nor synchronise once the largest query was seen. They are recorded into CUDA graphs: everything that
/// differs between batches is read from device memory, and the host computes only with the query's bounds.
///
/// A choice may depend on the key, the hop and original ids, never on the asking rank or time. Nodes of other
/// machines (GraphView::owns) get no picks here. `Id` is the type of the global ids that are written as
/// neighbors.
template <typename Id>
class DevicePickChooser {
 public:
  virtual ~DevicePickChooser() = default;
  /// Whether choose() can fill fixed-stride lists, without measure().
  virtual bool fills_strided(int fanout) const = 0;
  /// Whether a node never gets more picks than the fanout. If it may, a batch can have more picks than the
  /// sampler has room for, and choose() leaves out those beyond edge_bound.
  virtual bool bounded_by_fanout() const { return true; }
  /// counts [bound + 1] = the number of picks of each node, and 0 from the number of nodes on. plan [bound].
  virtual void measure(const DeviceQuery& query, DeviceRange* plan, Count* counts,
                       const cuda::Stream& stream) = 0;
  /// Writes the picks. `plan` is as measure() left it; null with fixed-stride lists.
  virtual void choose(const DeviceQuery& query, const DeviceRange* plan, const DevicePickOutput<Id>& out,
                      const cuda::Stream& stream) = 0;
};

/// Makes a user's chooser for a view: `narrow` for ids of 32 bits, `wide` for graphs whose ids need 64.
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
