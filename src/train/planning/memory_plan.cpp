// SPDX-License-Identifier: Apache-2.0
#include "planning/memory_plan.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "planning/model_work.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/plan/placement_request.hpp"

namespace strata::train {
namespace {

constexpr double kUsableGpu = 0.92;  // as gpu_budget(): the driver, NCCL and fragmentation take the rest

/// The parts of the machine that has most of the graph.
struct Largest {
  Count nodes = 0, edges = 0;
  std::vector<Count> part_nodes;
};

Count edges_of_part(const graph::Manifest& manifest, int part) {
  if (manifest.part_records) return (*manifest.part_records)[static_cast<std::size_t>(part)].num_edges;
  return manifest.num_edges / manifest.book.num_parts();  // planted parts are alike
}

Largest largest_machine(const graph::Manifest& manifest, int machines, std::int64_t row_bytes) {
  const std::vector<int> first = graph::parts_of_machines(manifest.book.num_parts(), machines);
  Largest largest;
  const auto bytes = [&](const Largest& m) { return m.nodes * row_bytes + m.edges * 8; };
  for (std::size_t m = 0; m + 1 < first.size(); ++m) {
    Largest machine;
    for (int part = first[m]; part < first[m + 1]; ++part) {
      const auto offsets = manifest.book.offsets().subspan(static_cast<std::size_t>(part), 2);
      machine.part_nodes.push_back(offsets[1] - offsets[0]);
      machine.nodes += machine.part_nodes.back();
      machine.edges += edges_of_part(manifest, part);
    }
    if (bytes(machine) > bytes(largest)) largest = std::move(machine);
  }
  return largest;
}

/// As plan::RegionSizes::bytes().
std::int64_t structure_bytes(const TrainConfig& config, const graph::Manifest& manifest,
                             const Largest& largest, int machines, bool replicated) {
  const Count nodes = manifest.book.num_nodes(), width = id_bytes(manifest);
  const Count lists = replicated ? nodes : largest.nodes,
              edges = replicated ? manifest.num_edges : largest.edges;
  std::int64_t sum = (lists + 1) * 8 + edges * width + nodes * width;
  sum += (manifest.num_train + (manifest.num_valid + manifest.num_test) / machines) * 8;
  const Count edge_weights = config.sampling_method() == sampling::Method::weighted ? 4 : 0,
              degrees =
                  config.model == nn::ModelKind::gcn || config.model == nn::ModelKind::gin ? nodes * 4 : 0;
  sum += edges * edge_weights + degrees;
  if (config.inductive) {  // beside the whole lists, at most those of the training nodes
    const double share =
        static_cast<double>(manifest.num_train) / static_cast<double>(std::max<Count>(1, nodes));
    sum += (lists + 1) * 8 + degrees +
           static_cast<std::int64_t>(share * static_cast<double>(edges * (width + edge_weights)));
  }
  return sum + largest.nodes * manifest.label_words() * 4;
}

/// Rates of a GPU such as an H200, measured: benchmarks/gather.
constexpr tensor::PathRates kRowRates{.local = 1.95e12, .peer = 4.3e11, .host = 4.9e10, .host_start = 5e-6};
constexpr tensor::PathRates kEntryRates{.local = 1e11, .peer = 0, .host = 1e9, .host_start = 5e-6};

plan::HeatCurve curve_of(Count rows, double accesses, const BatchProfile& profile) {
  plan::HeatCurve curve;
  for (int level = BatchProfile::kLevels - 1; level >= 0; --level) {
    const Count below = rows >> level;
    if (below <= (curve.points.empty() ? 0 : curve.points.back().rows)) continue;
    curve.points.push_back({below, accesses * profile.heat[static_cast<std::size_t>(level)]});
  }
  return curve;
}

/// This machine's own rows and lists, which compete with the cache for the memory of GPUs.
std::vector<plan::KeepGroup> own_groups(const BatchProfile& profile, const Largest& largest, Count edges,
                                        std::int64_t id_bytes, const plan::HaloBudget& budget,
                                        const plan::ExchangeCosts& costs) {
  using plan::Keepable;
  std::vector<plan::KeepGroup> groups;
  const int stripes = costs.striped ? budget.num_gpus : 1;
  const double a_row = static_cast<double>(budget.row_bytes) * (1 / costs.far - 1 / costs.near);
  plan::HeatCurve::Point before;
  for (const plan::HeatCurve::Point& point : curve_of(largest.nodes, profile.inputs, profile).points) {
    const Count rows = point.rows - before.rows;
    groups.push_back({.kind = Keepable::own_rows,
                      .count = rows,
                      .bytes = rows * budget.row_bytes / stripes,
                      .saved_seconds = (point.accesses - before.accesses) * a_row});
    before = point;
  }
  double visits = 0;
  for (const BatchProfile::Hop& hop : profile.hops) visits += hop.nodes;
  groups.push_back({.kind = Keepable::own_lists,
                    .count = edges,
                    .bytes = edges * id_bytes / stripes,
                    .saved_seconds = visits * costs.host_list_seconds});
  return groups;
}

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// As batches::load_parts() does. A person's size is kept to; an automatic one is what pays of a tenth
/// of the free memory.
void plan_cache(const TrainConfig& config, const graph::Manifest& manifest, const Cluster& cluster,
                const BatchProfile& profile, const CacheRates& rates, const Largest& largest,
                std::int64_t row_bytes, MemoryPlan& plan) {
  if (cluster.machines == 1) return;
  const std::int64_t free = cluster.host_memory - plan.host_bytes();
  const bool automatic = config.halo_cache_bytes == plan::kAutomatic;
  const plan::HaloBudget budget{.bytes = plan::halo_bytes(config.halo_cache_bytes, free),
                                .lists = !plan.replicated && !config.inductive,
                                .row_bytes = row_bytes,
                                .gpu_bytes = plan.gpu_budget_bytes,
                                .num_gpus = cluster.gpus};
  const plan::ExchangeCosts costs = exchange_costs(config, manifest, rates);
  plan::HaloOffer offer = offer_of({.config = config,
                                    .manifest = manifest,
                                    .profile = profile,
                                    .costs = costs,
                                    .others = static_cast<double>(manifest.book.num_nodes() - largest.nodes),
                                    .ranks = cluster.ranks_per_machine()});
  if (cluster.has_gpus())
    offer.own_groups = own_groups(profile, largest, largest.edges, id_bytes(manifest), budget, costs);
  plan::HaloAmounts amounts;
  if (automatic) {
    plan::HaloPlan what_pays = plan::plan_what_pays(offer, budget, costs, [](std::span<double>) {});
    amounts = what_pays.amounts;
    plan.caches = std::move(what_pays.decisions);
  } else {
    amounts = plan::fill_budget(offer, budget, costs);
  }
  plan.cached_rows = share_of(amounts.rows.answered, offer.rows);
  plan.cached_lists = share_of(amounts.lists.answered, offer.visits);
  const std::int64_t near =
      cluster.gpus *
      std::max<std::int64_t>(0, plan.gpu_budget_bytes - plan.gpu_graph_bytes - amounts.lists.bytes);
  const std::int64_t on_gpus = std::min(amounts.rows.bytes, near);
  plan.cache_bytes = amounts.rows.bytes - on_gpus + amounts.lists.bytes;
  plan.gpu_graph_bytes += on_gpus / std::max(1, cluster.gpus);
}

void plan_gpus(const TrainConfig& config, const graph::Manifest& manifest, const Cluster& cluster,
               const BatchProfile& profile, const Largest& largest, std::int64_t row_bytes,
               MemoryPlan& plan) {
  const Count nodes = manifest.book.num_nodes();
  const Count seeds =
      config.global_batch_size > 0 ? config.global_batch_size / cluster.all_ranks() + 1 : config.batch_size;
  plan.gpu_training_bytes = training_device_bytes(config, seeds * cluster.machines, nodes);
  const auto usable = static_cast<std::int64_t>(kUsableGpu * static_cast<double>(cluster.gpu_memory));
  const std::int64_t budget = config.gpu_memory_bytes > 0
                                  ? config.gpu_memory_bytes
                                  : std::max<std::int64_t>(0, usable - plan.gpu_training_bytes);
  plan.gpu_budget_bytes = budget;
  plan.fits_gpu = plan.gpu_training_bytes <= usable;
  plan::TensorDemand features{.name = "features", .row_bytes = row_bytes, .rates = kRowRates};
  for (const Count rows : largest.part_nodes) {
    const double share = static_cast<double>(rows) / static_cast<double>(largest.nodes);
    features.segments.push_back(curve_of(rows, profile.inputs * share, profile));
  }
  double picks = 0;
  for (const BatchProfile::Hop& hop : profile.hops) picks += hop.picks;
  const Count edges = plan.replicated ? manifest.num_edges : largest.edges;
  plan::TensorDemand indices{.name = "indices",
                             .row_bytes = id_bytes(manifest),
                             .segments = {plan::HeatCurve::flat(edges, picks)},
                             .rates = kEntryRates,
                             .whole = true};
  std::vector<plan::TensorDemand> demands{std::move(features), std::move(indices)};
  const plan::PlanLimits limits{.gpu_bytes = budget, .num_gpus = cluster.gpus};
  plan::fix_placements(plan::parse_placement(config.placement), limits, demands);
  plan.placement = plan::plan_tensors(demands, limits);
  plan.gpu_graph_bytes = plan.placement.gpu_bytes;
}

}  // namespace

std::int64_t training_device_bytes(const TrainConfig& config, Count seeds, Count num_nodes) {
  double rows = static_cast<double>(std::min(seeds, num_nodes));
  double activations = 0;
  for (const int fanout : config.fanouts) {
    activations +=
        rows * static_cast<double>(config.hidden) * sizeof(float) * 8;  // forward, gradients and workspaces
    rows = fanout < 0 ? static_cast<double>(num_nodes)
                      : std::min(rows * (fanout + 1), static_cast<double>(num_nodes));
  }
  const double sampling = static_cast<double>(num_nodes) * 5 + rows * 64 * batches::Pipeline::kBuffers;
  constexpr double kLibraries = 1.5 * (1 << 30);
  return static_cast<std::int64_t>(activations + sampling + kLibraries);
}

std::int64_t training_host_bytes(const TrainConfig& config, const graph::Manifest& manifest,
                                 const BatchProfile& profile) {
  constexpr double kLibraries = 184 << 20;  // which ranks cannot share: libtorch, relocated, and Open MPI
  constexpr double kNodeOfSampler = 5;      // a local id and some bits
  constexpr double kGrowth = 1.25;          // of buffers that turn out too small
  constexpr double kInput = 2 * sizeof(NodeId), kPick = sizeof(NodeId) + sizeof(std::int32_t);
  constexpr double kCopiesOfModel = 5;  // weights, gradients, two moments, and one to save
  double picks = 0;
  for (const BatchProfile::Hop& hop : profile.hops) picks += hop.picks;
  const double row = kInput + static_cast<double>(manifest.feature_cols) * sizeof(float);
  const double batch = kGrowth * (profile.inputs * row + picks * kPick);
  const double in_flight = config.pipeline ? batches::Pipeline::kBuffers : 1;
  return static_cast<std::int64_t>(kLibraries +
                                   kNodeOfSampler * static_cast<double>(manifest.book.num_nodes()) +
                                   in_flight * batch + activation_bytes(config, manifest, profile) +
                                   kCopiesOfModel * parameters_of(config, manifest) * sizeof(float));
}

MemoryPlan plan_memory(const TrainConfig& config, const graph::Manifest& manifest, const Cluster& cluster,
                       const BatchProfile& profile) {
  return plan_memory(config, manifest, cluster, profile, estimated_cache_rates(config, cluster));
}

MemoryPlan plan_memory(const TrainConfig& config, const graph::Manifest& manifest, const Cluster& cluster,
                       const BatchProfile& profile, const CacheRates& rates) {
  const std::int64_t row_bytes = plan::feature_row_bytes(manifest, config.feature_format);
  const Largest largest = largest_machine(manifest, cluster.machines, row_bytes);
  MemoryPlan plan;
  plan.feature_bytes = largest.nodes * row_bytes;
  if (cluster.machines > 1 && config.replicate_graph != plan::Replication::off) {
    const std::int64_t whole = structure_bytes(config, manifest, largest, cluster.machines, true);
    plan.replicated = config.replicate_graph == plan::Replication::on ||
                      plan::leaves_enough(whole + plan.feature_bytes, cluster.host_memory);
  }
  plan.structure_bytes = structure_bytes(config, manifest, largest, cluster.machines, plan.replicated);
  if (cluster.has_gpus()) {
    plan_gpus(config, manifest, cluster, profile, largest, row_bytes, plan);
    plan.feature_bytes = 0;
    for (const plan::StratumEstimate& stratum : plan.placement.tensors.front().strata)
      if (stratum.stratum == tensor::Stratum::host) plan.feature_bytes = stratum.rows * row_bytes;
  } else {
    plan.training_bytes = cluster.ranks * training_host_bytes(config, manifest, profile);
  }
  plan_cache(config, manifest, cluster, profile, rates, largest, row_bytes, plan);
  plan.fits_host = plan.host_bytes() <= cluster.host_memory;
  return plan;
}

}  // namespace strata::train
