#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "strata/store/machine_graph.hpp"
#include "strata/util/random.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::sampling {

/// Who gets slots at one hop, and with which randomness.
struct SlotQuery {
  std::span<const NodeId> nodes;  ///< global ids; one of another machine gets no slots here
  int fanout = 0;
  BatchKey key;
  std::uint32_t hop = 0;  ///< counted from the seeds
};

/// Where a node's in-neighbours lie, and the id that keys its choice (set only where there is something to
/// choose).
struct NeighborRange {
  Count begin = 0, degree = 0;
  NodeId original_id = 0;
};

/// What is known of a query's nodes before any neighbour is read; scratch memory that is used again at the
/// next hop.
struct SlotPlan {
  std::vector<NeighborRange> ranges;
};

/// Room for chosen slots: the slots of node i begin at offsets[i].
template <typename Id>
struct SlotOutput {
  const Count* offsets = nullptr;
  Id* neighbors = nullptr;     ///< global ids
  EdgeId* edge_ids = nullptr;  ///< null: not asked for
};

/// Which neighbours a node gets: what distinguishes one sampler from another. In host memory.
///
/// A choice may depend on the query's key and hop and on original ids, never on who asks or when: see
/// "Partition invariance". `Id` is the type of global ids on the device and on the wire.
template <typename Id>
class SlotChooser {
 public:
  virtual ~SlotChooser() = default;
  /// counts[i] = slots of node i. Fills `plan` for choose().
  virtual void measure(const SlotQuery& query, SlotPlan& plan, Count* counts) = 0;
  virtual void choose(const SlotQuery& query, const SlotPlan& plan, const SlotOutput<Id>& out) = 0;
};

/// Uniform without replacement; all neighbours, in order, of a node that has no more than `fanout`.
template <typename Id>
std::unique_ptr<SlotChooser<Id>> make_uniform_chooser(const store::GraphView& view, ThreadPool& pool);

}  // namespace strata::sampling
