#include "strata/store/machine_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "machine_graph_state.hpp"
#include "strata/util/error.hpp"

namespace strata::store {

MachineGraph::MachineGraph(std::unique_ptr<State> state) : state_(std::move(state)) {}
MachineGraph::MachineGraph(MachineGraph&&) noexcept = default;
MachineGraph& MachineGraph::operator=(MachineGraph&&) noexcept = default;
MachineGraph::~MachineGraph() = default;

const graph::Manifest& MachineGraph::manifest() const { return state_->manifest; }
std::span<const NodeId> MachineGraph::machine_offsets() const { return state_->machine_offsets; }

int MachineGraph::machine_of(NodeId global) const {
  const auto& offsets = state_->machine_offsets;
  return static_cast<int>(std::ranges::upper_bound(offsets, global) - offsets.begin()) - 1;
}

const GraphView& MachineGraph::host_view() const { return state_->host_view; }
const GraphView& MachineGraph::view() const { return state_->on_device.view(); }
const ChunkTensor& MachineGraph::features() const { return *state_->features; }
std::span<const std::int32_t> MachineGraph::labels() const { return state_->regions->labels.span(); }
std::span<const NodeId> MachineGraph::train_nodes() const { return state_->regions->train.span(); }
std::span<const NodeId> MachineGraph::valid_nodes() const { return state_->regions->valid.span(); }
std::span<const NodeId> MachineGraph::test_nodes() const { return state_->regions->test.span(); }
const std::vector<MachineGraph::PlanRow>& MachineGraph::plan() const { return state_->plan; }
Count MachineGraph::presampled_batches() const { return state_->presampled_batches; }

void MachineGraph::close(const comm::Machine& machine) {
  state_->features->close(machine);
  state_->on_device = GraphOnDevice();
  machine.barrier();
  state_->regions.reset();
}

void GraphState::place(const comm::Machine& machine, const GraphPlacement& placement) {
  host_view = regions->view();
  machine.together([&] { on_device = GraphOnDevice(machine.device(), host_view, placement); });
  plan = plan_rows(*regions, placement, *features);
  presampled_batches = placement.presampled_batches;
}

void check_edge_weights(const graph::Manifest& manifest, const LoadOptions& options) {
  if (!options.edge_weights || manifest.has_edge_weights) return;
  throw InputError(
      fmt::format("the graph \"{}\" has no edge weights, which a weighted sampler needs", manifest.name),
      "Sample uniformly, or build the graph from a data set with a feature of edges called weight, or from "
      "synthetic:weights=uniform.");
}

TensorSpec GraphState::feature_spec(Count rows) const {
  return {.name = "features", .rows = rows, .cols = manifest.feature_cols, .dtype = manifest.feature_dtype};
}

}  // namespace strata::store
