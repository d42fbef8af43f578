// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "placing/read_counts.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/store/open_graph.hpp"
#include "strata/util/ranges.hpp"

namespace strata::batches {

/// The nodes of the types that every machine keeps copies of (graph::Manifest::replicated_types).
class ReplicatedNodes {
 public:
  explicit ReplicatedNodes(const graph::Manifest& manifest);

  bool any() const { return all_.nodes > 0; }
  bool has(NodeId original_id) const;
  const plan::CopiedNodes& all() const { return all_; }
  /// Logs what there is. For one rank.
  void log() const;

 private:
  std::vector<Range> ids_;  // ascending
  std::vector<std::string> types_;
  plan::CopiedNodes all_;
};

/// What a machine keeps of others.
struct HaloWanted {
  plan::HaloBudget budget;           ///< for what saves most
  plan::HaloBudget of_replicated{};  ///< whether rows and lists of these are kept, whatever they take
  ReplicatedNodes replicated;
};

/// Bytes that a sampler takes of a GPU for a copy of these lists and their index.
std::int64_t gpu_bytes_of_lists(const store::HaloNodes& nodes, const plan::RegionSizes& sizes);

/// Keeps those rows and lists of other machines' nodes that plan::fill_budget() says, the hottest first, and
/// all of replicated types. Of nodes that are equally hot and do not all fit, each rank's share is taken in
/// ascending order. The result is the same on all ranks of a machine; the first rank of all logs its
/// machine's.
///
/// `counts` of sampled batches; null: heat comes from the structure only. Collective over all ranks; throws
/// on all ranks alike.
store::HaloNodes choose_halo(const comm::Ranks& ranks, const store::OpenGraph& graph,
                             const store::LoadOptions& options, const HaloWanted& wanted,
                             const ReadCounts* counts);

}  // namespace strata::batches
