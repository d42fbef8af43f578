// SPDX-License-Identifier: Apache-2.0
#include "planning/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "planning/described_batches.hpp"
#include "planning/measured_run.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/util/error.hpp"
#include "type_choices.hpp"

namespace strata::train {
namespace {

void check_same_model(const MeasuredRun& run, const TrainConfig& config) {
  const std::string fanouts = fmt::format("[{}]", fmt::join(config.fanouts, ","));
  if (run.model == planned_model(config) && run.hidden == config.hidden && run.fanouts == fanouts) return;
  throw InputError(
      fmt::format("--cluster measured: that run trained {} with hidden {} and fanouts {}, not {} with "
                  "hidden {} and fanouts {}",
                  run.model, run.hidden, run.fanouts, planned_model(config), config.hidden, fanouts),
      "Name a run of the same model, or leave measured out.");
}

double seeds_per_rank(const StepPlan& plan) {
  return static_cast<double>(plan.global_batch) / plan.cluster.all_ranks();
}

void estimate_seconds(const TrainConfig& config, const plan::RunShape& run, const graph::Manifest& manifest,
                      StepPlan& plan) {
  const RankSpeed speed = speed_of(plan.cluster, config.precision);
  const plan::StepWork work = plan::work_of(run, manifest, plan.profile);
  double picks = 0;
  for (const BatchProfile::Hop& hop : plan.profile.hops) picks += hop.picks;
  plan::StepInputs& inputs = plan.inputs;
  inputs.sample_seconds = picks / speed.picks;
  const auto row_bytes = static_cast<double>(plan::feature_row_bytes(manifest, config.feature_format));
  inputs.gather_seconds = plan.cluster.has_gpus() ? plan.memory.placement.seconds.batch()
                                                  : plan.profile.inputs * row_bytes / speed.row_bytes;
  inputs.compute_seconds =
      speed.start_seconds + work.flops / speed.flops + work.aggregated_bytes / speed.aggregated_bytes;
  plan.basis =
      plan.cluster.has_gpus() ? "estimated for a GPU such as an H200" : "estimated for one CPU core per rank";
}

/// On one machine, a GPU reads rows in place that all lie on GPUs. On several, each row is written and read
/// once more, in the memory that training uses, too.
double staging_seconds(const StepPlan& plan, const graph::Manifest& manifest) {
  constexpr double kCopy = 4.29e12;  // bytes read and written per second by an H200
  const bool in_place = plan.cluster.has_gpus() && plan.memory.feature_bytes == 0;
  if (!in_place || plan.cluster.machines == 1) return 0;
  return 2 * plan.profile.inputs * static_cast<double>(manifest.feature_cols) * sizeof(float) / kCopy;
}

/// What was measured takes the place of estimates; seeds scale it.
void take_measured(const TrainConfig& config, StepPlan& plan) {
  const plan::Cluster& cluster = plan.cluster;
  plan::StepInputs& inputs = plan.inputs;
  if (!cluster.measured.empty()) {
    const MeasuredRun run = read_measured_run(cluster.measured);
    check_same_model(run, config);
    const double scale = seeds_per_rank(plan) / run.seeds_per_rank;
    inputs.sample_seconds = run.sample_seconds * scale;
    inputs.gather_seconds = run.gather_seconds * scale;
    inputs.compute_seconds = run.compute_seconds * scale;
    if (!run.one_by_one) inputs.loading_share = 0;
    plan.basis = fmt::format("measured in {}", cluster.measured);
  }
  if (cluster.sample_seconds) inputs.sample_seconds = *cluster.sample_seconds;
  if (cluster.gather_seconds) inputs.gather_seconds = *cluster.gather_seconds;
  if (!cluster.compute_seconds) return;
  inputs.compute_seconds = *cluster.compute_seconds;
  inputs.loading_share = 0;
  plan.basis = "given";
}

/// On several machines a run hides round trips behind further batches.
void take_batches_in_flight(const TrainConfig& config, StepPlan& plan) {
  plan::StepInputs& inputs = plan.inputs;
  if (!config.pipeline) return;
  if (inputs.machines == 1) return;
  if (plan.cluster.has_gpus() && inputs.link.latency_seconds <= batches::kSlowRound) return;
  const plan::StepEstimate one_each = plan::estimate_step(inputs);
  double sample_rounds = 0;
  for (const plan::WireLoad& hop : inputs.hops) sample_rounds += hop.rounds;
  const batches::InFlight chosen =
      batches::in_flight_for({.sample = one_each.sample,
                              .gather = one_each.gather,
                              .train = one_each.train,
                              .sample_latency = sample_rounds * inputs.link.latency_seconds,
                              .gather_latency = inputs.rows.rounds * inputs.link.latency_seconds},
                             batches::Pipeline::kMostBuffers);
  inputs.batches_in_flight = chosen.batches();
  inputs.sampled_at_once = chosen.sampled;
  inputs.gathered_at_once = chosen.gathered;
}

plan::LayerArithmetic arithmetic_of(const TrainConfig& config, const graph::GraphTypes& graph) {
  const auto types = static_cast<double>(graph.nodes.size()),
             relations = static_cast<double>(graph.edges.size());
  switch (config.model) {
    case nn::ModelKind::sage:
      return {.output_in_out = 2, .matrices_in_out = 2};
    case nn::ModelKind::gcn:
      return {.output_in_out = 1, .matrices_in_out = 1};
    case nn::ModelKind::gin:
      return {.output_in_out = 1, .output_out_out = 1, .matrices_in_out = 1, .matrices_out_out = 1};
    case nn::ModelKind::gat:
      return {.input_in_out = 1, .matrices_in_out = 1};
    case nn::ModelKind::rgcn:
      return {.output_in_out = 1,
              .sublist_in_out = 1,
              .matrices_in_out = 1 + (config.bases > 0 ? config.bases : relations)};
    case nn::ModelKind::rsage:
      return {.output_in_out = 1, .sublist_in_out = 1, .matrices_in_out = 2 * relations};
    case nn::ModelKind::rgat:
      return {.pick_in_out = 1, .matrices_in_out = relations};
    case nn::ModelKind::none:
      return {};
    case nn::ModelKind::hgt:  // a query and a map of each node; a key and a value of each neighbor
      return {.output_in_out = 1,
              .output_out_out = 1,
              .pick_in_out = 2,
              .matrices_in_out = 3 * types,
              .matrices_out_out = types + 2 * relations / config.heads.front()};
  }
  return {};
}

/// The parts of the graph, or what is known of it.
class PlannedGraph {
 public:
  PlannedGraph(const TrainConfig& config, int machines) : described_(graph::describe(config.graph)) {
    if (described_) {
      manifest_ = manifest_of(*described_, machines);
      return;
    }
    origin_ = config.graph.parts();
    if (!origin_)
      throw InputError(
          fmt::format("strata-plan: {} has no parts", config.graph.text()),
          "Give a partition directory, planted:parts=N,..., whose lists are made one by one, or a "
          "file that describes the graph, such as strata-partition info --json writes.");
    manifest_ = graph::read_manifest(*origin_);
  }

  const graph::Manifest& manifest() const { return manifest_; }
  BatchProfile profile(const ProfiledJob& job) const {
    return described_ ? profile_described(*described_, manifest_, job)
                      : profile_batches(*origin_, manifest_, job);
  }

 private:
  std::optional<graph::Description> described_;
  std::optional<graph::PartsOrigin> origin_;
  graph::Manifest manifest_;
};

}  // namespace

plan::RunShape run_shape(const TrainConfig& config, const graph::GraphTypes& types, int ranks) {
  return {.fanouts = most_neighbors(config, types),
          .hidden = config.hidden,
          .layer = arithmetic_of(config, types),
          .seeds = config.global_batch_size > 0 ? config.global_batch_size / ranks + 1 : config.batch_size,
          .batches_in_flight = config.pipeline ? batches::Pipeline::kBuffers : 1,
          .buffers = batches::Pipeline::kBuffers,
          .train_edges_only = config.inductive,
          .edge_weights = config.sampling_method() == sampling::Method::weighted,
          .in_degrees = config.model == nn::ModelKind::gcn || config.model == nn::ModelKind::gin,
          .gpu_memory_bytes = config.gpu_memory_bytes,
          .halo_cache_bytes = config.halo_cache_bytes,
          .placement = plan::parse_placement(config.placement),
          .feature_format = config.feature_format,
          .replication = config.replicate_graph,
          .rows_travel_in_bf16 = config.row_exchange_precision == RowPrecision::bf16};
}

comm::Topology topology_of(const plan::Cluster& cluster) {
  comm::Topology topology;
  topology.machines.resize(at(cluster.machines));
  for (int machine = 0; machine < cluster.machines; ++machine) {
    for (int local = 0; local < cluster.ranks_per_machine(); ++local) {
      topology.machines[at(machine)].push_back(static_cast<int>(topology.ranks.size()));
      comm::Topology::Rank& rank = topology.ranks.emplace_back();
      rank.host = std::to_string(machine);
      rank.machine = machine;
      rank.local_rank = rank.host_rank = local;
      if (cluster.has_gpus()) rank.device = {.kind = Device::Kind::cuda, .index = local};
    }
  }
  topology.gpu_per_rank = cluster.has_gpus();
  return topology;
}

RankSpeed speed_of(const plan::Cluster& cluster, Precision precision) {
  if (!cluster.has_gpus())
    return {.flops = 4e10, .aggregated_bytes = 8e9, .picks = 2e7, .row_bytes = 3e9, .start_seconds = 1e-3};
  const double factor = precision == Precision::f32 ? 0.25 : precision == Precision::bf16 ? 1.5 : 1;
  return {.flops = factor * 1.5e14,
          .aggregated_bytes = 3e12 * (precision == Precision::bf16 ? 1.5 : 1),
          .picks = 8e9,
          .row_bytes = 1.9e12,
          .start_seconds = 1e-4};
}

ExchangeLoads loads_of(const BatchProfile& profile, const std::vector<int>& fanouts,
                       const plan::MemoryPlan& memory, int machines, const batches::Routes& routes,
                       const plan::WireBytes& wire) {
  ExchangeLoads loads;
  if (machines == 1) return loads;
  const double others = machines - 1;
  for (std::size_t hop = 0; !memory.replicated && hop < profile.hops.size(); ++hop) {
    const BatchProfile::Hop& h = profile.hops[hop];
    const double left = 1 - memory.cached_lists;
    const double nodes = h.remote_nodes * left, picks = h.remote_picks * left;
    if (routes.neighbors == batches::Transport::nccl) {
      const double bytes =
          fanouts.empty() ? nodes * wire.list + picks * wire.pick : nodes * wire.of_list(fanouts[hop]);
      loads.hops.push_back(
          nodes < 0.5
              ? plan::WireLoad{}
              : plan::WireLoad{.bytes = plan::kPaddingMargin * bytes, .messages = 3 * others, .rounds = 2});
      continue;
    }
    // numbers of requests, requests, numbers of picks, picks
    const double messages = nodes < 0.5 ? others : 4 * others;
    loads.hops.push_back({.bytes = nodes * wire.list + picks * wire.pick, .messages = messages, .rounds = 4});
  }
  const double bytes = profile.remote_inputs * (1 - memory.cached_rows) * wire.row;
  // Rows between GPUs: ids, rows, and the agreement that all fitted; else how many, numbers, ids, rows.
  const bool direct = routes.requests == batches::Transport::nccl && routes.rows == batches::Transport::nccl;
  loads.rows =
      direct ? plan::WireLoad{.bytes = plan::kPaddingMargin * bytes, .messages = 2 * others, .rounds = 3}
             : plan::WireLoad{.bytes = bytes, .messages = 4 * others, .rounds = 4};
  return loads;
}

StepPlan make_plan(const TrainConfig& config, const plan::Cluster& cluster) {
  const PlannedGraph graph(config, cluster.machines);
  const graph::Manifest& manifest = graph.manifest();
  check_types(config, manifest.types, manifest.feature_cols);
  sampling::SamplerOptions sampling;
  choose_fanouts(config, manifest.types, sampling);
  StepPlan plan{.cluster = cluster};
  plan.global_batch =
      config.global_batch_size > 0 ? config.global_batch_size : config.batch_size * cluster.all_ranks();
  plan.profile = graph.profile({.machines = cluster.machines,
                                .ranks_per_machine = cluster.ranks_per_machine(),
                                .global_batch = plan.global_batch,
                                .fanouts = config.fanouts,
                                .relation_fanouts = std::move(sampling.relation_fanouts),
                                .seed = config.seed,
                                .train_edges_only = config.inductive});
  plan::RunShape run = run_shape(config, manifest.types, cluster.all_ranks());
  const InputShape input =
      input_shape(config, manifest.types, manifest.feature_cols, manifest.book.num_nodes());
  run.learned_cols = input.learned_cols;
  run.learned_bytes = input.learned_bytes();
  const comm::Topology topology = topology_of(cluster);
  batches::RouteRequest request = route_request(config);
  plan.memory = plan::plan_memory(run, manifest, cluster, plan.profile);
  request.replicated = plan.memory.replicated;
  plan.routes = batches::choose_routes(topology, request);
  const std::vector<int> fanouts = manifest.types.several() ? std::vector<int>() : run.fanouts;
  const ExchangeLoads loads = loads_of(plan.profile, fanouts, plan.memory, cluster.machines, plan.routes,
                                       plan::wire_bytes(run, manifest));
  constexpr double kWireShareOfGpu = 0.55;  // NCCL's kernels beside training: benchmarks/scaling
  plan.inputs = {.hops = loads.hops,
                 .rows = loads.rows,
                 .gradient_bytes = plan::parameters_of(run, manifest) * sizeof(float),
                 .ranks = cluster.all_ranks(),
                 .machines = cluster.machines,
                 .batches_in_flight = config.pipeline ? 3 : 1,
                 .loading_share = cluster.has_gpus() ? 0.0 : 1.0,
                 .wire_share = cluster.has_gpus() ? kWireShareOfGpu : 1.0,
                 .link = cluster.link_of_rank()};
  estimate_seconds(config, run, manifest, plan);
  take_measured(config, plan);
  plan.inputs.staging_seconds = staging_seconds(plan, manifest);
  take_batches_in_flight(config, plan);
  plan.estimate = plan::estimate_step(plan.inputs);
  plan.alone = plan::estimate_step(plan::without_wire(plan.inputs));
  return plan;
}

}  // namespace strata::train
