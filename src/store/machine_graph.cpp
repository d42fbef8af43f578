// SPDX-License-Identifier: Apache-2.0
#include "strata/store/machine_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "machine_graph_state.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::store {

MachineGraph::MachineGraph(std::unique_ptr<GraphState> state) : state_(std::move(state)) {}
MachineGraph::MachineGraph(MachineGraph&&) noexcept = default;
MachineGraph& MachineGraph::operator=(MachineGraph&&) noexcept = default;
MachineGraph::~MachineGraph() = default;

const graph::Manifest& MachineGraph::manifest() const { return state_->manifest; }
std::span<const NodeId> MachineGraph::machine_offsets() const { return state_->machine_offsets; }

int MachineGraph::machine_of(NodeId global) const {
  const auto& offsets = state_->machine_offsets;
  return static_cast<int>(std::ranges::upper_bound(offsets, global) - offsets.begin()) - 1;
}

std::span<const NodeId> MachineGraph::part_offsets() const { return state_->part_offsets(); }

const GraphView& MachineGraph::host_view() const { return state_->host_view; }
const GraphView& MachineGraph::host_lists() const { return state_->host_lists; }
const GraphView& MachineGraph::view() const { return state_->on_device.view(); }
const GraphView& MachineGraph::whole_view() const { return state_->whole ? state_->whole_view : view(); }
const GraphView& MachineGraph::whole_host_view() const {
  return state_->whole ? state_->whole_host_view : host_view();
}
bool MachineGraph::is_replicated() const { return state_->regions->sizes.replicated; }
const HaloLists* MachineGraph::halo_lists() const { return state_->halo ? &state_->halo->lists : nullptr; }
const NodeIndex* MachineGraph::exact_halo_rows() const {
  return state_->halo_rows_are_rounded ? nullptr : halo_rows();
}
const NodeIndex* MachineGraph::halo_rows() const {
  return state_->halo_rows.size() > 0 ? &state_->halo_rows : nullptr;
}
const tensor::ChunkTensor& MachineGraph::features() const { return *state_->features; }
tensor::ChunkTensor& MachineGraph::features() { return *state_->features; }
FeatureArrival* MachineGraph::arrival() const { return state_->arrival.get(); }
std::span<const std::int32_t> MachineGraph::labels() const { return state_->regions->labels.span(); }
std::span<const NodeId> MachineGraph::train_nodes() const { return state_->splits->train; }
std::span<const std::int32_t> MachineGraph::train_clusters() const { return state_->splits->train_clusters; }
std::span<const NodeId> MachineGraph::valid_nodes() const { return state_->splits->valid; }
std::span<const NodeId> MachineGraph::test_nodes() const { return state_->splits->test; }
std::span<const std::int64_t> MachineGraph::held_edges(graph::Split split) const {
  const GraphRegions& regions = *state_->regions;
  if (split == graph::Split::train) return {};
  return (split == graph::Split::valid ? regions.valid_edges : regions.test_edges).span();
}
const std::vector<plan::PlanRow>& MachineGraph::plan() const { return state_->plan; }
const std::vector<plan::HottestRows>& MachineGraph::hottest_rows() const { return state_->hottest_rows; }
Count MachineGraph::presampled_batches() const { return state_->presampled_batches; }

void MachineGraph::close(const comm::Machine& machine) {
  state_->arrival.reset();
  machine.barrier();  // other ranks may be writing to this one's memory
  state_->features->close(machine);
  state_->on_device.close(machine);
  machine.barrier();
  state_->halo.reset();
  state_->whole.reset();
  state_->splits.reset();
  state_->regions.reset();
}

SplitNodes::SplitNodes(const GraphRegions& regions)
    : train(regions.train.span()),
      valid(regions.valid.span()),
      test(regions.test.span()),
      train_clusters(regions.train_clusters.span()) {}

void SplitNodes::narrow(Range original_ids, const GraphRegions& regions) {
  const auto id_of = [&](NodeId node) { return regions.original_ids.view()[node]; };
  const auto first = std::ranges::lower_bound(train, original_ids.first, {}, id_of) - train.begin(),
             last = std::ranges::lower_bound(train, original_ids.end(), {}, id_of) - train.begin();
  train = train.subspan(at(first), at(last - first));
  if (!train_clusters.empty()) train_clusters = train_clusters.subspan(at(first), at(last - first));
  const auto keep = [&](std::span<const NodeId> all, std::vector<NodeId>& own) -> std::span<const NodeId> {
    std::ranges::copy_if(all, std::back_inserter(own), [&](NodeId node) {
      return id_of(node) >= original_ids.first && id_of(node) < original_ids.end();
    });
    return own;
  };
  valid = keep(valid, own_valid);
  test = keep(test, own_test);
}

void GraphState::take_splits(const LoadOptions& options) {
  splits.emplace(*regions);
  if (!options.split_nodes) return;
  splits->narrow(*options.split_nodes, *regions);
  manifest.num_train = std::ssize(splits->train);
  manifest.num_valid = std::ssize(splits->valid);
  manifest.num_test = std::ssize(splits->test);
}

std::span<const NodeId> GraphState::part_offsets() const {
  const std::span<const NodeId> all = manifest.book.offsets();
  const NodeId first = regions->sizes.first_node;
  const auto begin = std::ranges::lower_bound(all, first);
  return {begin, std::ranges::upper_bound(all, first + regions->sizes.num_local)};
}

void GraphState::place(const comm::Machine& machine, plan::GraphPlacement& placement) {
  host_view = regions->view();
  host_lists = regions->lists_view();
  on_device = GraphOnDevice(machine, regions->lists_view(), placement);
  plan = plan::plan_rows(regions->sizes, features->spec(), placement, features->placement());
  hottest_rows = plan::hottest_feature_rows(placement);
  if (halo) {
    const std::size_t bytes =
        halo->indptr.span().size_bytes() + halo->indices.bytes() + halo->edge_ids.span().size_bytes();
    plan.push_back({"halo lists", "host", halo->lists.index.size(), static_cast<std::int64_t>(bytes), {}});
  }
  if (whole) {
    whole_view = whole->in_place_of(host_lists);
    whole_host_view = regions->own_nodes_of(whole_view);
    whole_view.device = machine.device();
    plan.push_back({"lists of the whole graph", "host", host_lists.num_local, whole->bytes(), {}});
  }
  presampled_batches = placement.presampled_batches;
}

void check_options(const graph::Manifest& manifest, const LoadOptions& options) {
  if (!options.edge_weights || manifest.has_edge_weights) return;
  throw InputError(
      fmt::format("the graph \"{}\" has no edge weights, which a weighted sampler needs", manifest.name),
      "Sample uniformly, or build the graph from a data set with a feature of edges called weight, or from "
      "synthetic:weights=uniform.");
}

namespace {

const char* name_of(tensor::HostPath path) {
  switch (path) {
    case tensor::HostPath::automatic:
      return "auto";
    case tensor::HostPath::zero_copy:
      return "zero copy";
    case tensor::HostPath::threads:
      return "CPU threads";
    case tensor::HostPath::both:
      return "CPU threads and zero copy together";
  }
  return "";
}

/// Says how the GPUs of the first machine read host rows, and why.
void log_host_path(const comm::Machine& machine, const tensor::ChunkTensor& features,
                   tensor::HostPath requested) {
  if (machine.rank() > 0 || machine.index() > 0 || !machine.device().is_cuda()) return;
  std::int64_t host_bytes = 0;
  for (const tensor::StratumView& view : features.views())
    if (view.stratum == tensor::Stratum::host)
      host_bytes += view.rows * static_cast<std::int64_t>(view.row_pitch);
  if (host_bytes == 0) return;
  const tensor::GatherSettings& settings = features.settings();
  spdlog::info("{} of features in host memory are read by {}: {} cores a rank for it{}",
               format_bytes(host_bytes), name_of(settings.host_path), settings.threads,
               requested == tensor::HostPath::automatic
                   ? ", tables of more than 1 GiB by threads too where there are 3"
                   : ", as asked for");
}

}  // namespace

void GraphState::make_features(const comm::Machine& machine, const plan::GraphPlacement& placement,
                               const LoadOptions& options) {
  tensor::TensorSpec spec = plan::shape_in_memory(manifest, options.feature_format).spec();
  spec.name = name_of(plan::GraphTensor::features);
  spec.rows = placement.features.total().rows();
  spec.padded = placement.layout.padded;
  features.emplace(tensor::ChunkTensor::create(machine, spec, placement.features));
  machine.together([&] {
    features->configure({.host_path = options.host_path,
                         .threads = options.host_threads,
                         .aligned_reads = placement.layout.aligned_reads});
  });
  log_host_path(machine, *features, options.host_path);
}

}  // namespace strata::store
