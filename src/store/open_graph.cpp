// SPDX-License-Identifier: Apache-2.0
#include "strata/store/open_graph.hpp"

#include <array>
#include <utility>

#include "load/graph_source.hpp"

namespace strata::store {

OpenGraph::OpenGraph(std::unique_ptr<GraphSource> source) : source_(std::move(source)) {
  source_->state().take_splits(source_->options());
}
OpenGraph::OpenGraph(OpenGraph&&) noexcept = default;
OpenGraph::~OpenGraph() = default;

const graph::Manifest& OpenGraph::manifest() const { return source_->state().manifest; }
const plan::RegionSizes& OpenGraph::sizes() const { return source_->state().regions->sizes; }
const plan::FeatureShape& OpenGraph::features() const { return source_->features(); }
GraphView OpenGraph::nodes() const { return source_->state().regions->view(); }
GraphView OpenGraph::lists() const { return source_->state().regions->lists_view(); }
std::span<const NodeId> OpenGraph::train_nodes() const { return source_->state().splits->train; }
std::span<const std::int32_t> OpenGraph::train_clusters() const {
  return source_->state().splits->train_clusters;
}
void OpenGraph::add_up_splits(const comm::Ranks& ranks) {
  graph::Manifest& manifest = source_->state().manifest;
  std::array<Count, 2> counts{};
  if (ranks.machine->rank() == 0) counts = {manifest.num_valid, manifest.num_test};
  ranks.world->all_reduce(counts);
  manifest.num_valid = counts[0];
  manifest.num_test = counts[1];
}
std::span<const NodeId> OpenGraph::machine_offsets() const { return source_->state().machine_offsets; }
std::span<const NodeId> OpenGraph::part_offsets() const { return source_->state().part_offsets(); }
const std::vector<Count>& OpenGraph::list_parts() const { return source_->list_parts(); }
const NodeIndex* OpenGraph::halo_rows() const {
  const NodeIndex& rows = source_->state().halo_rows;
  return rows.size() > 0 ? &rows : nullptr;
}

void OpenGraph::visit_indptr(Range nodes,
                             const std::function<void(NodeId, std::span<const Count>)>& visit) const {
  source_->visit_indptr(nodes, visit);
}

void OpenGraph::keep(HaloNodes nodes) { source_->keep(std::move(nodes)); }

MachineGraph OpenGraph::place(plan::GraphPlacement placement) && {
  GraphState& state = source_->state();
  state.make_features(source_->machine(), placement, source_->options());
  source_->fill();
  state.place(source_->machine(), placement);
  source_->finish();
  return MachineGraph(source_->take_state());
}

}  // namespace strata::store
