// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "loader/agreement.hpp"
#include "loader/expand.hpp"
#include "loader/feature_writer.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"

namespace strata::batches {
namespace {

/// Half of what is free is left to the model and its activations.
std::int64_t gpu_bytes(const comm::Machine& machine, std::int64_t wanted) {
  return wanted != GraphOptions::kAutomatic ? wanted : comm::free_gpu_bytes_per_rank(machine) / 2;
}

store::LoadOptions load_options(const Runtime& runtime, const GraphOptions& options, bool has_edge_ids) {
  return {.edge_ids = options.edge_ids.value_or(has_edge_ids),
          .edge_weights = options.edge_weights,
          .gpu_budget_bytes = gpu_bytes(runtime.machine(), options.gpu_bytes),
          .batch = options.batch,
          .replication = options.replication,
          .halo_bytes = options.halo_bytes};
}

void require_one_machine(const Runtime& runtime, const std::string& what) {
  const int machines = runtime.topology().num_machines();
  if (machines == 1) return;
  throw InputError(fmt::format("{} lives on one machine, but this run has {}", what, machines),
                   "Write parts once with strata-partition build, and load their directory.");
}

/// Hosts may keep the same parts in different places.
std::string name_of(const graph::Source& source) {
  if (!source.parts()) return source.text();
  const std::filesystem::path folder(source.text());
  return "parts in " + (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

store::MachineGraph load_stored(Runtime& runtime, const graph::Source& source, const GraphOptions& options) {
  const store::LoadOptions load = load_options(runtime, options, !source.is_generated());
  const auto parts = source.parts();
  if (parts) {
    return batches::load_parts(*parts, runtime.ranks(), load);
  }
  require_one_machine(runtime, source.text());
  if (const graph::SyntheticSpec* spec = source.synthetic())
    return batches::generate_graph(*spec, {}, runtime.machine(), load, runtime.caller_pool());
  std::unique_ptr<graph::Graph> read;
  runtime.communicator().together([&] {
    if (runtime.machine().rank() == 0) read = std::make_unique<graph::Graph>(graph::read_graph(source));
  });
  return batches::take_graph(std::move(read), runtime.machine(), load);
}

/// A graph that the first rank makes of arrays, on so many threads.
template <typename Make>
std::shared_ptr<Graph> made_of(std::shared_ptr<Runtime> runtime, const GraphOptions& options, Make make) {
  require_one_machine(*runtime, "a graph in memory");
  check_agreement(runtime->communicator(), "arrays", options);
  std::unique_ptr<graph::Graph> graph;
  runtime->communicator().together([&] {
    if (runtime->machine().rank() == 0)
      graph = std::make_unique<graph::Graph>(make(comm::resources_of(runtime->machine()).cores_alone));
  });
  return Graph::from_memory(std::move(runtime), std::move(graph), options);
}

}  // namespace

std::shared_ptr<Graph> Graph::load(std::shared_ptr<Runtime> runtime, const graph::Source& source,
                                   const GraphOptions& options) {
  const comm::Communicator& world = runtime->communicator();
  std::string name;
  world.together([&] { name = name_of(source); });
  check_agreement(world, name, options);
  store::MachineGraph stored = load_stored(*runtime, source, options);
  return std::make_shared<Graph>(std::move(runtime), std::move(stored));
}

std::shared_ptr<Graph> Graph::from_memory(std::shared_ptr<Runtime> runtime,
                                          std::unique_ptr<graph::Graph> graph, const GraphOptions& options) {
  require_one_machine(*runtime, "a graph in memory");
  auto stored =
      batches::take_graph(std::move(graph), runtime->machine(), load_options(*runtime, options, true));
  return std::make_shared<Graph>(std::move(runtime), std::move(stored));
}

std::shared_ptr<Graph> Graph::from_arrays(std::shared_ptr<Runtime> runtime, graph::GraphArrays arrays,
                                          const GraphOptions& options) {
  return made_of(std::move(runtime), options, [&](int threads) {
    const graph::ReadOptions keep{.duplicates = graph::EdgePolicy::keep,
                                  .direction = graph::ReadOptions::Direction::directed,
                                  .num_threads = threads};
    return graph::graph_from_arrays(arrays, keep);
  });
}

std::shared_ptr<Graph> Graph::from_arrays(std::shared_ptr<Runtime> runtime, graph::TypedArrays arrays,
                                          const GraphOptions& options) {
  return made_of(std::move(runtime), options,
                 [&](int threads) { return graph::graph_from_typed_arrays(arrays, threads); });
}

Graph::Graph(std::shared_ptr<Runtime> runtime, store::MachineGraph graph)
    : runtime_(std::move(runtime)), graph_(std::move(graph)), id_check_(std::make_shared<IdCheck>()) {
  RowExchangeContext exchange;
  if (runtime_->topology().num_machines() > 1) {
    row_communicator_ = runtime_->communicator().duplicate();
    exchange = {.communicator = &*row_communicator_,
                .topology = &runtime_->topology(),
                .machine_offsets = graph_->machine_offsets(),
                .machine = runtime_->machine().index(),
                .halo = graph_->halo_rows()};
  }
  if (manifest().feature_cols > 0)
    fetcher_.emplace(graph_->features(), runtime_->device(), exchange, runtime_->caller_pool());
  valid_nodes_ = gather_nodes(graph_->valid_nodes());
  test_nodes_ = gather_nodes(graph_->test_nodes());
}

const store::MachineGraph& Graph::stored() const {
  if (graph_) return *graph_;
  throw Error("this graph was closed", "Load it again, or close it later.");
}

std::span<const NodeId> Graph::nodes_of(Split split) const {
  const std::span<const NodeId> train_nodes = stored().train_nodes();  // throws if the graph was closed
  return split == Split::train ? train_nodes : split == Split::valid ? valid_nodes_ : test_nodes_;
}

bool Graph::is_renumbered() const {
  const IdSpan& original_ids = stored().host_view().original_ids;
  const Count num_nodes = stored().host_view().num_nodes;
  const std::lock_guard lock(mutex_);
  if (!is_renumbered_) {
    NodeId v = 0;
    while (v < num_nodes && original_ids[v] == v) ++v;
    is_renumbered_ = v < num_nodes;
  }
  return *is_renumbered_;
}

/// Of all machines, in the order of their original ids. Collective.
std::vector<NodeId> Graph::gather_nodes(std::span<const NodeId> of_machine) const {
  std::string mine;
  if (runtime_->machine().rank() == 0)
    mine.assign(reinterpret_cast<const char*>(of_machine.data()), of_machine.size_bytes());
  std::vector<NodeId> nodes;
  for (const std::string& blob : runtime_->communicator().all_gather(mine)) {
    const std::size_t begin = nodes.size();
    nodes.resize(begin + blob.size() / sizeof(NodeId));
    std::memcpy(nodes.data() + begin, blob.data(), blob.size());
  }
  const IdSpan& original_ids = stored().host_view().original_ids;
  std::ranges::sort(nodes, {}, [&](NodeId node) { return original_ids[node]; });
  return nodes;
}

void Graph::check_ids(std::span<const NodeId> ids, const cuda::Stream& stream) const {
  const Count num_nodes = stored().host_view().num_nodes;
  const auto bad =
      id_check_->find({.data = ids.data(), .size = std::ssize(ids), .wide = true}, num_nodes, stream);
  if (!bad) return;
  throw std::out_of_range(fmt::format("index {} is {}, which is not a node of the graph (0 to {})",
                                      bad->position, bad->id, num_nodes - 1));
}

void Graph::original_ids(std::span<const NodeId> ids, NodeId* out) const {
  check_ids(ids, {});
  const IdSpan& original = stored().host_view().original_ids;
  std::ranges::transform(ids, out, [&](NodeId id) { return original[id]; });
}

void Graph::global_ids(std::span<const NodeId> original_ids, NodeId* out) const {
  check_ids(original_ids, {});
  const std::lock_guard lock(mutex_);
  if (global_of_.empty()) {
    const store::GraphView& view = stored().host_view();
    global_of_.resize(at(view.num_nodes));
    for (NodeId v = 0; v < view.num_nodes; ++v) global_of_[at(view.original_ids[v])] = v;
  }
  std::ranges::transform(original_ids, out, [&](NodeId id) { return global_of_[at(id)]; });
}

void Graph::gather_features(const NodeId* ids, Count count, float* out, const cuda::Stream& stream) {
  if (stored().manifest().feature_cols == 0)
    throw InputError("the graph has no node features", "Build it from an input with features.");
  const auto check = [&] { check_ids({ids, at(count)}, stream); };
  if (row_communicator_)
    row_communicator_->together(check);
  else
    check();
  fetcher_->fetch({.ids = ids, .count = count}, out, stream);
}

void Graph::add_reader(const std::shared_ptr<GraphReader>& reader) {
  const std::lock_guard lock(mutex_);
  std::erase_if(readers_, [](const auto& entry) { return entry.second.expired(); });
  std::erase_if(lone_readers_, [](const auto& weak) { return weak.expired(); });
  if (reader->is_alone())
    lone_readers_.push_back(reader);
  else
    readers_.emplace(readers_made_++, reader);
}

/// Ranks may have dropped different ones by now, because Python collects what is not used when it likes.
void Graph::close_readers() {
  std::vector<std::weak_ptr<GraphReader>> alone;
  std::map<Count, std::weak_ptr<GraphReader>> shared;
  {
    const std::lock_guard lock(mutex_);
    alone.swap(lone_readers_);
    shared.swap(readers_);
  }
  for (const auto& weak : alone)
    if (const auto reader = weak.lock()) reader->close();
  std::map<Count, std::shared_ptr<GraphReader>> mine;
  std::string numbers;
  for (const auto& [number, weak] : shared) {
    auto reader = weak.lock();
    if (!reader) continue;
    reader->end();
    numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
    mine.emplace(number, std::move(reader));
  }
  std::map<Count, int> ranks_with;
  for (const std::string& blob : runtime_->communicator().all_gather(numbers)) {
    for (std::size_t i = 0; i < blob.size(); i += sizeof(Count)) {
      Count number = 0;
      std::memcpy(&number, blob.data() + i, sizeof number);
      ++ranks_with[number];
    }
  }
  for (const auto& [number, reader] : mine)
    if (ranks_with[number] == runtime_->communicator().size()) reader->close();
}

void Graph::close() {
  if (!graph_) return;
  close_readers();
  fetcher_.reset();
  id_check_.reset();
  if (feature_writer_) feature_writer_->close();
  feature_writer_.reset();
  if (row_communicator_) row_communicator_->close();
  graph_->close(runtime_->machine());
  graph_.reset();
}

}  // namespace strata::batches
