// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::sampling {

/// Where a node's in-neighbors lie, and the id that keys its choice (set only where there is something to
/// choose).
struct NeighborRange {
  Count begin = 0, degree = 0;
  NodeId original_id = 0;
};

/// What measure() learns of a query's nodes and choose() uses; scratch memory that is used again at the next
/// hop.
struct PickPlan {
  std::vector<NeighborRange> ranges;
  /// Of choosers that have chosen when they know how many: places in the nodes' lists, by piece of nodes.
  std::vector<std::vector<std::uint32_t>> positions;
  ChosenNeighbors chosen;  ///< by a user's chooser
};

/// Room for chosen picks: the picks of node i are [offsets[i], offsets[i + 1]).
template <typename Id>
struct PickOutput {
  const Count* offsets = nullptr;
  Id* neighbors = nullptr;     ///< global ids
  EdgeId* edge_ids = nullptr;  ///< null: not asked for
};

/// Which neighbors a node gets: what distinguishes one sampler from another. In host memory.
///
/// A choice may depend on the query's key and hop and on original ids, never on who asks or when: see
/// "Partition invariance". `Id` is the type of global ids on the device and on the wire.
template <typename Id>
class PickChooser {
 public:
  virtual ~PickChooser() = default;
  /// counts[i] = picks of node i. Fills `plan` for choose().
  virtual void measure(const PickQuery& query, PickPlan& plan, Count* counts) = 0;
  virtual void choose(const PickQuery& query, const PickPlan& plan, const PickOutput<Id>& out) = 0;
};

/// The chooser that the options name; they are valid for the view.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_pick_chooser(const store::GraphView& view,
                                                   const SamplerOptions& options, ThreadPool& pool);

/// Uniform without replacement; all neighbors, in order, of a node that has no more than `fanout`.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_uniform_chooser(const store::GraphView& view, ThreadPool& pool);

/// Uniform with replacement: `fanout` draws for every node that has a neighbor.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_replacing_chooser(const store::GraphView& view, ThreadPool& pool);

/// Weighted without replacement, in the order of the lists.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_weighted_chooser(const store::GraphView& view, ThreadPool& pool);

/// Weighted with replacement: `fanout` draws for every node that has an edge of positive weight.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_weighted_replacing_chooser(const store::GraphView& view,
                                                                 ThreadPool& pool);

/// LABOR-0, in the order of the lists; see LaborRule.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_labor_chooser(const store::GraphView& view, bool layer_dependent,
                                                    ThreadPool& pool);

/// What the user's chooser says, checked. It must outlive the result.
template <typename Id>
std::unique_ptr<PickChooser<Id>> make_user_chooser(const store::GraphView& view, NeighborChooser& chooser,
                                                   bool edge_ids);

}  // namespace strata::sampling
