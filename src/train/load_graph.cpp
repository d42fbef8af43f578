// SPDX-License-Identifier: Apache-2.0
#include "load_graph.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <optional>

#include "strata/batches/pipeline.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
#include "tuning/no_effect.hpp"
#include "type_choices.hpp"

namespace strata::train {
namespace {

/// Refuses before anything large is read.
void check_usable(const RunContext& context, Count feature_cols, const TaskInput& input, GraphUse use) {
  const TrainConfig& config = context.config;
  if (feature_cols == 0 && config.learned_rows == 0) {
    throw InputError(
        fmt::format("{}: the graph has no node features", input.graph),
        "Build it from an input with features, or learn a row for each node: --learned-rows 64.");
  }
  if (use == GraphUse::inference) return;
  context.task.require(input);
  if (context.task.of_links()) return;  // they are edges
  if (input.num_train == 0) {
    throw InputError(fmt::format("{}: the graph has no training nodes", input.graph),
                     "Build it from an input with a training split.");
  }
  if (input.num_valid == 0 && config.patience > 0) {
    throw InputError(
        fmt::format("--patience {}: {} has no validation nodes to stop by", config.patience, input.graph),
        "Leave it out, or build the graph from an input with a validation split.");
  }
  if (input.num_valid == 0 && config.eval_every > 0 && context.first_rank())
    spdlog::warn("{}: the graph has no validation nodes: the last model is kept, not the best one",
                 input.graph);
}

/// The model is made when the graph is there; one of a user may need anything.
bool may_need_in_degrees(const TrainConfig& config) {
  return !config.own_model.empty() || config.model == nn::ModelKind::gcn ||
         config.model == nn::ModelKind::gin;
}

/// What is known of a graph before it is read.
struct GraphFacts {
  Count num_nodes = 0, feature_cols = 0;
  graph::GraphTypes types = {};
  Count edges_held_out = 0;
};

/// GPUs need them for the plan of their memory, and several machines to know what to keep of each other's
/// nodes.
std::optional<batches::FirstBatches> first_batches(RunContext& context, GraphUse use,
                                                   const graph::GraphTypes& types) {
  if (context.task.of_links()) return {};  // batches of training nodes say nothing about those of links
  const bool shares = context.topology.num_machines() > 1 && use == GraphUse::training;
  if (!context.device.is_cuda() && !shares) return {};
  return batches::FirstBatches{.sampler = context.neighbor_choice(types),
                               .global_batch = context.global_batch,
                               .seed = context.config.seed,
                               .pool = &context.sample_pool,
                               .together = shares};
}

/// --gpu-memory, or what is free now less what training takes at most. The store divides it among the ranks
/// of a GPU.
void set_gpu_budget(const RunContext& context, const GraphFacts& graph, store::LoadOptions& options) {
  const TrainConfig& config = context.config;
  options.gpu_budget_bytes = config.gpu_memory_bytes;
  if (config.gpu_memory_bytes > 0) return;
  const plan::StepShape step{.fanouts = options.batch.fanouts,
                             .hidden = config.hidden,
                             .batches_in_flight = batches::Pipeline::kBuffers};
  const Count seeds = context.seeds_per_rank() * context.topology.num_machines();
  const InputShape input = input_shape(config, graph.types, graph.feature_cols, graph.num_nodes);
  const std::int64_t training =
      comm::resources_of(context.machine).gpu_sharers() *
      (plan::training_device_bytes(step, seeds, graph.num_nodes) + input.learned_bytes());
  const auto free = static_cast<std::int64_t>(cuda::device_memory(context.device.index).free_bytes);
  options.gpu_budget_bytes = plan::graph_bytes_of_gpu(free, training);
  options.bytes_per_input_row = plan::bytes_per_input_row(input.cols(), step.batches_in_flight);
}

/// What load_graph() is asked for.
struct Loading {
  RunContext& context;
  GraphUse use;
  const std::string& target;
};

/// The nodes of the target's type, if that is given and there are others.
std::optional<Range> nodes_of_splits(const Loading& loading, const GraphFacts& graph) {
  if (loading.target.empty()) return {};
  const TargetType target = type_named(loading.target, graph.types, graph.num_nodes);
  return graph.types.nodes.size() > 1 ? std::optional(target.original_ids) : std::nullopt;
}

/// The split of a graph's edges into links to learn and to score, unless its parts have one.
std::optional<graph::EdgeSplit> edge_split(const TrainConfig& config, const GraphFacts& graph) {
  if (graph.edges_held_out == 0) {
    graph::EdgeSplit split = edge_split_of(config);
    // Other edges between the ends of one may give its target away.
    if (config.task == TaskKind::link)
      split.relations = graph::with_reverses(graph.types, link_relations(config, graph.types));
    return split;
  }
  if (config.edge_split != TrainConfig{}.edge_split)
    throw InputError(fmt::format("--edge-split {}: the parts hold {} edges out already", config.edge_split,
                                 format_count(graph.edges_held_out)),
                     "Leave --edge-split out.");
  return {};
}

store::LoadOptions load_options(const Loading& loading, const GraphFacts& graph) {
  RunContext& context = loading.context;
  const TrainConfig& config = context.config;
  store::LoadOptions options{
      .edge_ids = graph.types.several() || context.task.edge_targets() != nullptr,
      .edge_weights = config.sampling_method() == sampling::Method::weighted || config.link_weights,
      .train_edges_only = config.inductive && loading.use == GraphUse::training,
      .edge_split = context.task.of_links() ? edge_split(config, graph) : std::nullopt,
      .in_degrees = may_need_in_degrees(config),
      .degrees_of_loops = !config.own_model.empty() || config.model != nn::ModelKind::gcn,
      .feature_format = config.feature_format,
      .placement = plan::parse_placement(config.placement),
      .batch = {.seeds = context.seeds_per_rank(), .fanouts = most_neighbors(config, graph.types)},
      .host_path = config.host_gather,
      .replication = config.replicate_graph,
      .halo_bytes = config.halo_cache_bytes,
      .halo_rows_in_bf16 = config.row_exchange_precision == RowPrecision::bf16,
      .late_features = config.start_early && loading.use == GraphUse::training,
      .split_nodes = nodes_of_splits(loading, graph)};
  if (context.device.is_cuda()) set_gpu_budget(context, graph, options);
  return options;
}

/// Of an inductive run: how much of the graph it sees. Collective.
void tell_train_edges(const RunContext& context, const store::MachineGraph& graph) {
  const bool counts = context.machine.rank() == 0 && (!graph.is_replicated() || context.machine.index() == 0);
  std::array<Count, 2> edges{};
  if (counts) edges = {graph.host_view().indices.size, graph.whole_host_view().indices.size};
  context.communicator().all_reduce(edges);
  if (!context.first_rank()) return;
  if (edges[0] == 0) {
    spdlog::warn("--inductive: no edge has training nodes on both ends; training sees none of {} edges",
                 format_count(edges[1]));
    return;
  }
  spdlog::info("inductive: training sees {} of {} edges, those among {} training nodes{}",
               format_count(edges[0]), format_count(edges[1]), format_count(std::ssize(graph.train_nodes())),
               graph.manifest().types.nodes.size() > 1 ? " and nodes of other types" : "");
}

store::MachineGraph generate(const Loading& loading, const graph::SyntheticSpec& spec) {
  RunContext& context = loading.context;
  if (context.topology.num_machines() > 1) {
    throw InputError(
        fmt::format("{} is generated on one machine, but this run has {}", context.config.graph.text(),
                    context.topology.num_machines()),
        "Write it once with strata-partition build --input synthetic:... and give the directory, or take "
        "planted:..., of which every machine generates its parts.");
  }
  check_usable(context, spec.features,
               {.graph = context.config.graph.text(),
                .num_classes = spec.classes,
                .num_train = spec.train,
                .num_valid = spec.valid},
               loading.use);
  const GraphFacts facts{.num_nodes = spec.nodes, .feature_cols = spec.features};
  check_types(context.config, facts.types, facts.feature_cols);
  return batches::generate_graph(spec, {}, context.machine, load_options(loading, facts), context.sample_pool,
                                 first_batches(context, loading.use, facts.types));
}

void check_in_memory(const Loading& loading, const graph::Graph& graph) {
  const RunContext& context = loading.context;
  check_types(context.config, graph.types, graph.features.cols);
  check_usable(context, graph.features.cols,
               {.graph = context.config.graph.text(),
                .num_classes = graph.num_classes,
                .num_train = std::ssize(graph.splits.train),
                .num_valid = std::ssize(graph.splits.valid),
                .multi_label = graph.multi_label,
                .targets = graph.target_cols},
               loading.use);
}

/// The first rank's facts. Collective.
GraphFacts share_facts(const graph::Graph* graph, const comm::Communicator& communicator) {
  GraphFacts facts;
  std::string types;
  if (graph != nullptr) {
    facts = {.num_nodes = graph->num_nodes(),
             .feature_cols = graph->features.cols,
             .edges_held_out = graph->edge_splits.valid.size() + graph->edge_splits.test.size()};
    types = graph::format_types(graph->types);
  }
  communicator.broadcast(&facts.num_nodes, sizeof(facts.num_nodes), 0);
  communicator.broadcast(&facts.feature_cols, sizeof(facts.feature_cols), 0);
  communicator.broadcast(&facts.edges_held_out, sizeof(facts.edges_held_out), 0);
  communicator.broadcast(types, 0);
  facts.types = graph::parse_types(types);
  return facts;
}

/// Takes the graph that a program has in memory.
store::MachineGraph take(const Loading& loading) {
  RunContext& context = loading.context;
  if (context.topology.num_machines() > 1)
    throw InputError(fmt::format("{} lives on one machine, but this run has {}", context.config.graph.text(),
                                 context.topology.num_machines()),
                     "Write parts of it once, and give their directory.");
  std::unique_ptr<graph::Graph> graph;
  context.communicator().together([&] {
    if (!context.first_rank()) return;
    graph = context.config.make_graph();
    check_in_memory(loading, *graph);
  });
  const GraphFacts facts = share_facts(graph.get(), context.communicator());
  return batches::take_graph(std::move(graph), context.machine, load_options(loading, facts),
                             first_batches(context, loading.use, facts.types));
}

store::MachineGraph load_any(const Loading& loading) {
  RunContext& context = loading.context;
  // How long it takes depends on the graph and the disk; a lost host is noticed all the same.
  context.watchdog.take_time("loading the graph");
  const TrainConfig& config = context.config;
  if (config.make_graph) return take(loading);
  if (const graph::SyntheticSpec* spec = config.graph.synthetic()) return generate(loading, *spec);
  const graph::PartsOrigin parts = config.graph.parts().value();
  graph::Manifest manifest;
  context.communicator().together([&] {
    manifest = graph::read_manifest(parts);
    check_types(config, manifest.types, manifest.feature_cols);
    check_usable(context, manifest.feature_cols,
                 {.graph = config.graph.text(),
                  .num_classes = manifest.num_classes,
                  .num_train = manifest.num_train,
                  .num_valid = manifest.num_valid,
                  .multi_label = manifest.multi_label,
                  .targets = std::ssize(manifest.targets)},
                 loading.use);
  });
  if (context.first_rank() && context.topology.num_machines() > 1)
    for (const std::string& line : options_without_effect(config, manifest)) spdlog::warn("{}", line);
  const GraphFacts facts{.num_nodes = manifest.book.num_nodes(),
                         .feature_cols = manifest.feature_cols,
                         .types = manifest.types,
                         .edges_held_out = manifest.num_valid_edges + manifest.num_test_edges};
  return batches::load_parts(parts, context.ranks(), load_options(loading, facts),
                             first_batches(context, loading.use, facts.types));
}

}  // namespace

store::MachineGraph load_graph(RunContext& context, GraphUse use, const std::string& target) {
  store::MachineGraph graph = load_any({context, use, target});
  if (use == GraphUse::training && !context.task.of_links() && graph.train_nodes().empty())
    throw InputError(fmt::format("{}: no node of the type \"{}\" is in the training split",
                                 context.config.graph.text(), target),
                     "Give --target with the type that has labels, or leave it out.");
  if (context.config.inductive && use == GraphUse::training) tell_train_edges(context, graph);
  return graph;
}

std::string graph_digest(const TrainConfig& config) {
  if (config.make_graph) return config.graph.text();
  if (const graph::SyntheticSpec* spec = config.graph.synthetic()) return graph::digest_of(*spec);
  return graph::read_graph_digest(config.graph.parts().value());
}

std::string build_program(const TrainConfig& config) {
  return config.graph.synthetic() != nullptr || config.make_graph
             ? std::string()
             : graph::read_build_program(config.graph.parts().value());
}

}  // namespace strata::train
