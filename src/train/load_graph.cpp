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

namespace strata::train {
namespace {

/// Refuses before anything large is read.
void check_usable(const RunContext& context, Count feature_cols, const TaskInput& input, GraphUse use) {
  const TrainConfig& config = context.config;
  if (feature_cols == 0) {
    throw InputError(fmt::format("{}: the graph has no node features", input.graph),
                     "Build it from an input with features.");
  }
  if (use == GraphUse::inference) return;
  context.task.require(input);
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
  return !config.own_model.empty() ||
         (config.model != nn::ModelKind::sage && config.model != nn::ModelKind::gat);
}

/// GPUs need them for the plan of their memory, and several machines to know what to keep of each other's
/// nodes.
std::optional<batches::FirstBatches> first_batches(RunContext& context, GraphUse use) {
  const bool shares = context.topology.num_machines() > 1 && use == GraphUse::training;
  if (!context.device.is_cuda() && !shares) return {};
  return batches::FirstBatches{.sampler = context.neighbor_choice(),
                               .global_batch = context.global_batch,
                               .seed = context.config.seed,
                               .pool = &context.sample_pool,
                               .together = shares};
}

/// --gpu-memory, or what is free now less what training takes at most. The store divides it among the ranks
/// of a GPU.
void set_gpu_budget(const RunContext& context, Count num_nodes, Count feature_cols,
                    store::LoadOptions& options) {
  const TrainConfig& config = context.config;
  options.gpu_budget_bytes = config.gpu_memory_bytes;
  if (config.gpu_memory_bytes > 0) return;
  const plan::StepShape step{
      .fanouts = config.fanouts, .hidden = config.hidden, .batches_in_flight = batches::Pipeline::kBuffers};
  const Count seeds = context.seeds_per_rank() * context.topology.num_machines();
  const std::int64_t training =
      comm::resources_of(context.machine).gpu_sharers() * plan::training_device_bytes(step, seeds, num_nodes);
  const auto free = static_cast<std::int64_t>(cuda::device_memory(context.device.index).free_bytes);
  options.gpu_budget_bytes = plan::graph_bytes_of_gpu(free, training);
  options.bytes_per_input_row = plan::bytes_per_input_row(feature_cols, step.batches_in_flight);
}

/// What load_graph() is asked for.
struct Loading {
  RunContext& context;
  GraphUse use;
};

store::LoadOptions load_options(const Loading& loading, Count num_nodes, Count feature_cols) {
  RunContext& context = loading.context;
  const TrainConfig& config = context.config;
  store::LoadOptions options{
      .edge_weights = config.sampling_method() == sampling::Method::weighted,
      .train_edges_only = config.inductive && loading.use == GraphUse::training,
      .in_degrees = may_need_in_degrees(config),
      .degrees_of_loops = !config.own_model.empty() || config.model != nn::ModelKind::gcn,
      .feature_format = config.feature_format,
      .placement = plan::parse_placement(config.placement),
      .batch = {.seeds = context.seeds_per_rank(), .fanouts = config.fanouts},
      .host_path = config.host_gather,
      .replication = config.replicate_graph,
      .halo_bytes = config.halo_cache_bytes,
      .halo_rows_in_bf16 = config.row_exchange_precision == RowPrecision::bf16,
      .late_features = config.start_early && loading.use == GraphUse::training};
  if (context.device.is_cuda()) set_gpu_budget(context, num_nodes, feature_cols, options);
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
  spdlog::info("inductive: training sees {} of {} edges, those among {} training nodes",
               format_count(edges[0]), format_count(edges[1]), format_count(std::ssize(graph.train_nodes())));
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
  return batches::generate_graph(spec, {}, context.machine, load_options(loading, spec.nodes, spec.features),
                                 context.sample_pool, first_batches(context, loading.use));
}

store::MachineGraph load_any(const Loading& loading) {
  RunContext& context = loading.context;
  // How long it takes depends on the graph and the disk; a lost host is noticed all the same.
  context.watchdog.take_time("loading the graph");
  const TrainConfig& config = context.config;
  if (const graph::SyntheticSpec* spec = config.graph.synthetic()) return generate(loading, *spec);
  const graph::PartsOrigin parts = config.graph.parts().value();
  graph::Manifest manifest;
  context.communicator().together([&] {
    manifest = graph::read_manifest(parts);
    check_usable(context, manifest.feature_cols,
                 {.graph = config.graph.text(),
                  .num_classes = manifest.num_classes,
                  .num_train = manifest.num_train,
                  .num_valid = manifest.num_valid,
                  .multi_label = manifest.multi_label},
                 loading.use);
  });
  if (context.first_rank() && context.topology.num_machines() > 1)
    for (const std::string& line : options_without_effect(config, manifest)) spdlog::warn("{}", line);
  return batches::load_parts(parts, context.ranks(),
                             load_options(loading, manifest.book.num_nodes(), manifest.feature_cols),
                             first_batches(context, loading.use));
}

}  // namespace

store::MachineGraph load_graph(RunContext& context, GraphUse use) {
  store::MachineGraph graph = load_any({context, use});
  if (context.config.inductive && use == GraphUse::training) tell_train_edges(context, graph);
  return graph;
}

std::string graph_digest(const TrainConfig& config) {
  if (const graph::SyntheticSpec* spec = config.graph.synthetic()) return graph::digest_of(*spec);
  return graph::read_graph_digest(config.graph.parts().value());
}

std::string build_program(const TrainConfig& config) {
  return config.graph.synthetic() != nullptr ? std::string()
                                             : graph::read_build_program(config.graph.parts().value());
}

}  // namespace strata::train
