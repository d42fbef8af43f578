// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/node_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "loader/agreement.hpp"
#include "loader/batch_copier.hpp"
#include "loader/solo.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::batches {
namespace {

/// REQUIRES: all of them are nodes of the graph.
void check_distinct(std::span<const NodeId> nodes, Count num_nodes) {
  if (std::ranges::adjacent_find(nodes, std::ranges::greater_equal()) == nodes.end()) return;  // ascending
  std::vector<bool> seen(at(num_nodes));
  for (const NodeId node : nodes) {
    if (seen[at(node)])
      throw InputError(fmt::format("node {} is given to a loader twice", node), "Give each node once.");
    seen[at(node)] = true;
  }
}

/// Batches of ranks that go their own way ask no other machine for anything.
void check_one_machine(int num_machines) {
  if (num_machines == 1) return;
  throw InputError(fmt::format("ranks of {} machines are to load nodes of their own", num_machines),
                   "Give all ranks the same nodes; the loader deals them to the ranks.");
}

/// What reads neighbors and labels of a seed lies on the machine that owns it.
void check_owner(std::span<const NodeId> nodes, Graph& graph) {
  const std::span<const NodeId> offsets = graph.stored().machine_offsets();
  const int machine = graph.runtime().machine().index();
  for (const NodeId node : nodes) {
    const auto owner = std::ranges::upper_bound(offsets, node) - offsets.begin() - 1;
    if (owner == machine) continue;
    throw InputError(
        fmt::format("node {} lies on machine {}, but this rank is on machine {}", node, owner, machine),
        "Give all ranks all of the nodes, which are then dealt to where they lie.");
  }
}

void check_options(const NodeLoaderOptions& options) {
  if (options.links && (options.own_nodes || !options.deals))
    throw InputError("ranks are to load links of their own",
                     "Give all ranks the same links; the loader deals them to the ranks.");
  if (options.batch_size < 1)
    throw InputError(fmt::format("batch_size is {}", options.batch_size),
                     "Give a number of seeds, at least 1.");
  if (options.deals) return;
  if (std::holds_alternative<Split>(options.nodes))
    throw InputError("deal=False needs ids in input_nodes", "A split is all ranks': it is dealt to them.");
  if (options.own_nodes)
    throw InputError("own_nodes and deal=False contradict each other",
                     "Ranks with nodes of their own go each their own way, or, with deal=False, in step.");
}

bool has_features(const NodeLoaderOptions& options, const graph::Manifest& manifest) {
  return options.features && manifest.feature_cols > 0;
}

}  // namespace

struct NodeLoader::State : GraphReader {
  std::shared_ptr<Graph> graph;
  NodeLoaderOptions options;
  const graph::Manifest& manifest;
  BatchCopier copier;
  std::unique_ptr<Solo> solo;  // with nodes of the rank's own
  std::unique_ptr<LinkSeeds> links;
  /// Of this loader's epochs, which other loaders of other threads may begin at the same time.
  std::optional<comm::Communicator> epochs;
  std::unique_ptr<Pipeline> pipeline;
  using Clock = std::chrono::steady_clock;
  Count steps_taken = 0;
  double caller_seconds = 0;  // that the caller spent with these steps
  std::optional<Clock::time_point> returned;

  State(std::shared_ptr<Graph> g, const NodeLoaderOptions& o)
      : graph(std::move(g)),
        options(o),
        manifest(graph->manifest()),
        copier(graph, options.form, has_labels()) {
    if (options.own_nodes) {
      check_one_machine(graph->runtime().topology().num_machines());
      solo = std::make_unique<Solo>(graph->runtime());
    }
    const comm::Communicator& world = ranks();
    check_agreement(world, options);
    world.together([&] { check_options(options); });
    if (options.links) links = std::make_unique<LinkSeeds>(link_graph(), world, options.links);
    const std::span<const NodeId> nodes = epoch_nodes();
    world.together([&] {
      if (links || std::holds_alternative<Split>(options.nodes)) return;
      graph->check_ids(nodes, {});
      check_distinct(nodes, graph->stored().host_view().num_nodes);
      if (!options.deals) check_owner(nodes, *graph);
    });
    pipeline = std::make_unique<Pipeline>(pipeline_parts(), pipeline_options(nodes));
    if (!solo) epochs = world.duplicate();
  }

  bool is_alone() const override { return solo != nullptr; }

  void end() override {
    if (pipeline) pipeline->end();
  }

  void close() override {
    if (!pipeline) return;
    pipeline->end();
    pipeline->close();
    pipeline.reset();
    if (solo) solo->close();
    if (epochs) epochs->close();
  }

  /// Those that the steps are dealt to.
  const comm::Communicator& ranks() const {
    return solo ? *solo->ranks().world : graph->runtime().communicator();
  }

  /// Checks the links' ends, too. Collective.
  LinkGraph link_graph() {
    ranks().together([&] {
      graph->check_ids(options.links->sources, {});
      graph->check_ids(options.links->destinations, {});
      graph->check_ids(options.links->negatives.listed, {});
    });
    LinkGraph made{.stored = &graph->stored(),
                   .pool = &graph->runtime().caller_pool(),
                   .counts = graph->runtime().machine().rank() == 0};
    if (graph->is_renumbered())
      made.global_ids = [this](std::span<const NodeId> ids, NodeId* out) { graph->global_ids(ids, out); };
    return made;
  }

  std::span<const NodeId> epoch_nodes() {
    if (links) return links->destinations();
    if (const Split* split = std::get_if<Split>(&options.nodes)) return graph->nodes_of(*split);
    return std::get<std::vector<NodeId>>(options.nodes);
  }

  PipelineParts pipeline_parts() {
    Runtime& runtime = graph->runtime();
    return {.ranks = solo ? solo->ranks() : runtime.ranks(),
            .graph = &graph->stored(),
            .sample_pool = &runtime.sample_pool(),
            .gather_pool = &runtime.gather_pool()};
  }

  PipelineOptions pipeline_options(std::span<const NodeId> nodes) const {
    sampling::SamplerOptions sampler = options.sampler;
    sampler.edge_ids = copier.copies_edge_ids();
    sampler.new_nodes_only = options.form == NodeLoaderOptions::Form::merged;
    sampler.transpose = options.form == NodeLoaderOptions::Form::blocks && options.transposes;
    // A user-defined chooser runs on the CPU; its blocks are then copied to the GPU.
    const auto sampler_device = sampler.chooser != nullptr ? comm::TopologyOptions::Compute::cpu
                                                           : comm::TopologyOptions::Compute::automatic;
    return {.sampler = std::move(sampler),
            .sampler_device = sampler_device,
            .epoch = {.nodes = nodes,
                      .shuffle = options.shuffle,
                      .drop_last = options.drop_last,
                      .nodes_of_rank = nodes_of_rank(std::ssize(nodes)),
                      .links = links.get()},
            .global_batch = options.batch_size * ranks().size(),
            .seed = options.seed,
            .overlap = options.overlap,
            .gather = has_features(options, manifest),
            .targets = has_labels() ? labels_of(graph->stored()) : SeedTargets{}};
  }

  std::vector<Count> nodes_of_rank(Count mine) const {
    if (options.deals) return {};
    return counts_of_ranks(ranks(), mine);
  }

  bool has_labels() const { return options.labels && options.links == nullptr && manifest.has_labels; }

  void begin(std::uint32_t epoch) {
    check_epoch(epochs ? *epochs : ranks(), epoch);
    pipeline->end();
    if (pipeline->wants_step_times() && steps_taken > 0) {
      pipeline->note_step_times(pipeline->take_times(), caller_seconds, steps_taken);
      steps_taken = 0;
    }
    caller_seconds = 0;
    returned.reset();
    pipeline->begin({.epoch = epoch, .first = 0, .end = pipeline->steps_per_epoch()});
  }

  std::shared_ptr<const NodeBatch> next(const cuda::Stream& stream) {
    if (returned) caller_seconds += std::chrono::duration<double>(Clock::now() - *returned).count();
    std::shared_ptr<const NodeBatch> batch = take_next(stream);
    returned = Clock::now();
    return batch;
  }

  std::shared_ptr<const NodeBatch> take_next(const cuda::Stream& stream) {
    const LoadedBatch* loaded = pipeline->next(stream);
    if (loaded == nullptr) return nullptr;
    ++steps_taken;
    const cuda::DeviceGuard guard(graph->runtime().device());
    auto batch = std::make_shared<NodeBatch>();
    batch->loss_scale = loss_scale_of(*loaded);
    if (has_features(options, manifest)) batch->feature_cols = manifest.feature_cols;
    const std::shared_ptr<BatchPiece> piece = copier.copy(*loaded, *batch, stream);
    if (loaded->features != nullptr) {
      pipeline->exchange_features(*loaded, piece->features);
      batch->features = loaded->features;
    } else if (has_features(options, manifest)) {
      batch->features = reinterpret_cast<const float*>(piece->arrays.data());  // no rows
    }
    pipeline->release(*loaded, stream);
    return batch;
  }

  double loss_scale_of(const LoadedBatch& loaded) const {
    if (loaded.num_global_seeds == 0) return 0;
    const double share =
        static_cast<double>(loaded.seed_places.size()) / static_cast<double>(loaded.num_global_seeds);
    return static_cast<double>(ranks().size()) * share;
  }
};

NodeLoader::NodeLoader(std::shared_ptr<Graph> graph, const NodeLoaderOptions& options)
    : state_(std::make_shared<State>(std::move(graph), options)) {
  state_->graph->add_reader(state_);
}
NodeLoader::~NodeLoader() = default;

Pipeline& NodeLoader::pipeline() const {
  if (state_->pipeline && state_->graph->is_open()) return *state_->pipeline;
  throw Error("this loader, or its graph, was closed", "Make a new one.");
}

Device NodeLoader::device() const { return state_->graph->runtime().device(); }
Count NodeLoader::num_seeds() const { return pipeline().num_seeds(); }
Count NodeLoader::steps_per_epoch() const { return pipeline().steps_per_epoch(); }
void NodeLoader::begin(std::uint32_t epoch) {
  pipeline();
  state_->begin(epoch);
}
bool NodeLoader::wait_for(std::chrono::milliseconds patience) { return pipeline().wait_for(patience); }
std::shared_ptr<const NodeBatch> NodeLoader::next(const cuda::Stream& stream) {
  pipeline();
  return state_->next(stream);
}
void NodeLoader::end() { pipeline().end(); }
void NodeLoader::run_on(const cuda::SmGroup& sms) {
  end();
  pipeline().run_on(sms);
}

Count NodeLoader::failed_draws() const { return state_->links ? state_->links->failed_draws() : 0; }
LoaderMemory NodeLoader::memory() const {
  return {.batches_made = state_->copier.memory().made(), .batches_held = state_->copier.memory().held()};
}
sampling::ExchangeReport NodeLoader::neighbor_exchange() const { return pipeline().neighbor_exchange(); }
RowExchangeReport NodeLoader::row_exchange() const { return pipeline().row_exchange_report(); }

void NodeLoader::close() { state_->close(); }

}  // namespace strata::batches
