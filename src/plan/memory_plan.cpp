// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "strata/graph/manifest_file.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/plan/placement.hpp"

namespace strata::plan {
namespace {

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// The parts of the machine that has most of the graph.
struct Largest {
  Count nodes = 0, edges = 0;
  std::vector<Count> part_nodes;
};

Count edges_of_part(const graph::Manifest& manifest, int part) {
  if (manifest.part_records) return (*manifest.part_records)[at(part)].num_edges;
  return manifest.num_edges / manifest.book.num_parts();  // planted parts are alike
}

Largest largest_machine(const graph::Manifest& manifest, int machines, std::int64_t row_bytes) {
  const std::vector<int> first = graph::parts_of_machines(manifest.book.num_parts(), machines);
  Largest largest;
  const auto bytes = [&](const Largest& m) { return m.nodes * row_bytes + m.edges * 8; };
  for (std::size_t m = 0; m + 1 < first.size(); ++m) {
    Largest machine;
    for (int part = first[m]; part < first[m + 1]; ++part) {
      const auto offsets = manifest.book.offsets().subspan(at(part), 2);
      machine.part_nodes.push_back(offsets[1] - offsets[0]);
      machine.nodes += machine.part_nodes.back();
      machine.edges += edges_of_part(manifest, part);
    }
    if (bytes(machine) > bytes(largest)) largest = std::move(machine);
  }
  return largest;
}

/// The most pairs of a node and a relation over which it has neighbors, in a machine's share of the edges.
Count most_sublists(const graph::Manifest& manifest, Count edges) {
  const graph::GraphTypes& types = manifest.types;
  if (types.edges.size() == 1) return 0;
  double sum = 0;
  for (std::size_t r = 0; r < types.edges.size(); ++r) {
    const auto type = std::ranges::find(types.nodes, types.edges[r].destination) - types.nodes.begin();
    const Range nodes = graph::nodes_of_type(types, at(type), manifest.book.num_nodes());
    sum += static_cast<double>(
        std::min(nodes.count, graph::edges_of_relation(types, r, manifest.num_edges).count));
  }
  return static_cast<Count>(sum *
                            share_of(static_cast<double>(edges), static_cast<double>(manifest.num_edges)));
}

RegionSizes sizes_of(const RunShape& run, const graph::Manifest& manifest, const Largest& largest,
                     int machines, bool replicated) {
  const Count edges = replicated ? manifest.num_edges : largest.edges;
  return {.num_nodes = manifest.book.num_nodes(),
          .num_local = largest.nodes,
          .local_edges = edges,
          .sublists = most_sublists(manifest, edges),
          .num_relations = static_cast<int>(manifest.types.edges.size()),
          .num_train = manifest.num_train,
          .local_valid = (manifest.num_valid + manifest.num_test) / machines,
          .edge_ids = manifest.types.several(),
          .weights = run.edge_weights,
          .in_degrees = run.in_degrees,
          .label_words = manifest.label_words(),
          .replicated = replicated};
}

/// Of an inductive run, beside the whole lists: at most those of the training nodes, and of other types.
std::int64_t structure_bytes(const RunShape& run, const graph::Manifest& manifest, const Largest& largest,
                             int machines, bool replicated) {
  const RegionSizes sizes = sizes_of(run, manifest, largest, machines, replicated);
  if (!run.train_edges_only) return sizes.bytes();
  const double share =
      manifest.types.nodes.size() > 1
          ? 1
          : static_cast<double>(sizes.num_train) / static_cast<double>(std::max<Count>(1, sizes.num_nodes));
  return sizes.bytes() + (sizes.num_lists() + 1 + sizes.sublists) * 8 +
         (sizes.in_degrees ? sizes.num_nodes * 4 : 0) +
         static_cast<std::int64_t>(share * static_cast<double>(sizes.local_edges * sizes.edge_bytes()));
}

/// Rates of a GPU such as an H200, measured: benchmarks/gather.
constexpr tensor::PathRates kRowRates{{tensor::Stratum::replicated, {1.95e12}},
                                      {tensor::Stratum::striped, {4.3e11}},
                                      {tensor::Stratum::host, {4.9e10, 5e-6}}};
constexpr tensor::PathRates kEntryRates{{tensor::Stratum::replicated, {1e11}},
                                        {tensor::Stratum::host, {1e9, 5e-6}}};

HeatCurve curve_of(Count rows, double accesses, const BatchProfile& profile) {
  HeatCurve curve;
  for (int level = BatchProfile::kLevels - 1; level >= 0; --level) {
    const Count below = rows >> level;
    if (below <= (curve.points.empty() ? 0 : curve.points.back().rows)) continue;
    curve.points.push_back({below, accesses * profile.heat[at(level)]});
  }
  return curve;
}

/// As batches::load_parts() does. GPUs have copies of the lists.
void plan_copies(const RunShape& run, const graph::Manifest& manifest, const Cluster& cluster,
                 const Largest& largest, std::int64_t row_bytes, MemoryPlan& plan) {
  if (cluster.machines == 1) return;
  const CopiedNodes copied = CopiedNodes::of(manifest);
  const RegionSizes sizes = sizes_of(run, manifest, largest, cluster.machines, plan.replicated);
  HaloBudget keeps{
      .rows = row_bytes > 0, .lists = !plan.replicated && !run.train_edges_only, .row_bytes = row_bytes};
  plan.copies_bytes = copied.bytes(keeps, sizes, cluster.ranks_per_machine());
  if (!cluster.has_gpus()) return;
  keeps.rows = false;
  plan.gpu_graph_bytes += copied.bytes(keeps, sizes, 1);
}

/// As batches::load_parts() does.
void plan_cache(const RunShape& run, const graph::Manifest& manifest, const Cluster& cluster,
                const BatchProfile& profile, const Largest& largest, std::int64_t row_bytes,
                MemoryPlan& plan) {
  if (cluster.machines == 1) return;
  const std::int64_t free = cluster.host_memory - plan.host_bytes();
  const HaloBudget budget{
      .bytes = halo_bytes(run.halo_cache_bytes, free),
      .lists = !plan.replicated && !run.train_edges_only && manifest.types.edges.size() == 1,
      .row_bytes = row_bytes,
      .gpu_bytes = plan.gpu_budget_bytes,
      .num_gpus = cluster.gpus};
  const WireBytes wire = wire_bytes(run, manifest);
  const HaloAmounts amounts =
      fill_budget(offer_of({.run = run,
                            .manifest = manifest,
                            .profile = profile,
                            .wire = wire,
                            .others = static_cast<double>(manifest.book.num_nodes() - largest.nodes),
                            .ranks = cluster.ranks_per_machine()}),
                  budget, wire);
  plan.cached_rows = share_of(amounts.rows.answered, profile.remote_inputs);
  plan.cached_lists = share_of(amounts.lists.answered, profile.remote_visits());
  const std::int64_t near =
      cluster.gpus *
      std::max<std::int64_t>(0, plan.gpu_budget_bytes - plan.gpu_graph_bytes - amounts.lists.bytes);
  const std::int64_t on_gpus = std::min(amounts.rows.bytes, near);
  plan.cache_bytes = amounts.rows.bytes - on_gpus + amounts.lists.bytes;
  plan.gpu_graph_bytes += on_gpus / std::max(1, cluster.gpus);
}

/// Of a batch in flight: rows, and neighbors.
double batch_bytes(const graph::Manifest& manifest, const BatchProfile& profile) {
  constexpr double kInput = 2 * sizeof(NodeId), kPick = sizeof(NodeId) + sizeof(std::int32_t);
  double picks = 0;
  for (const BatchProfile::Hop& hop : profile.hops) picks += hop.picks;
  const double row = kInput + static_cast<double>(manifest.feature_cols) * sizeof(float);
  return kBufferGrowth * (profile.inputs * row + picks * kPick);
}

constexpr double kNodeOfSampler = 5;  // a local id and some bits

/// What training takes of a GPU with batches such as the sampled ones.
std::int64_t expected_gpu_bytes(const RunShape& run, const graph::Manifest& manifest,
                                const BatchProfile& profile) {
  constexpr double kLibraries = 1.5 * (1 << 30);
  return static_cast<std::int64_t>(kLibraries +
                                   kNodeOfSampler * static_cast<double>(manifest.book.num_nodes()) +
                                   run.buffers * batch_bytes(manifest, profile) +
                                   kBufferGrowth * activation_bytes(run, manifest, profile));
}

void plan_gpus(const RunShape& run, const graph::Manifest& manifest, const Cluster& cluster,
               const BatchProfile& profile, const Largest& largest, std::int64_t row_bytes,
               MemoryPlan& plan) {
  const Count nodes = manifest.book.num_nodes();
  plan.gpu_training_bytes =
      training_device_bytes({.fanouts = run.fanouts, .hidden = run.hidden, .batches_in_flight = run.buffers},
                            run.seeds * cluster.machines, nodes) +
      run.learned_bytes;
  const std::int64_t room = graph_bytes_of_gpu(cluster.gpu_memory, 0);
  const std::int64_t budget = run.gpu_memory_bytes > 0
                                  ? run.gpu_memory_bytes
                                  : graph_bytes_of_gpu(cluster.gpu_memory, plan.gpu_training_bytes);
  if (manifest.types.several())  // most relations have fewer edges than their fanouts ask for
    plan.gpu_training_bytes =
        std::min(plan.gpu_training_bytes, expected_gpu_bytes(run, manifest, profile) + run.learned_bytes);
  plan.fits_gpu = plan.gpu_training_bytes <= room;
  plan.gpu_budget_bytes = budget;
  TensorDemand features{.name = "features", .row_bytes = row_bytes, .rates = kRowRates};
  for (const Count rows : largest.part_nodes) {
    const double share = static_cast<double>(rows) / static_cast<double>(largest.nodes);
    features.segments.push_back(curve_of(rows, profile.inputs * share, profile));
  }
  double picks = 0, sublists = 0;
  for (const BatchProfile::Hop& hop : profile.hops) {
    picks += hop.picks;
    sublists += hop.sublists;
  }
  const RegionSizes sizes = sizes_of(run, manifest, largest, cluster.machines, plan.replicated);
  TensorDemand indices{.name = "indices",
                       .row_bytes = sizes.edge_bytes(),
                       .segments = {HeatCurve::flat(sizes.local_edges, picks)},
                       .rates = kEntryRates,
                       .whole = true};
  if (manifest.types.several()) {  // entries that lie together, of two arrays, take the time of one each
    const double width = static_cast<double>(indices.row_bytes) / sizeof(std::int32_t);
    indices.rates[tensor::Stratum::host].bytes_per_second *=
        width / 2 * std::max(1.0, share_of(picks, sublists));
  }
  std::vector<TensorDemand> demands{std::move(features), std::move(indices)};
  const PlanLimits limits{.gpu_bytes = budget, .num_gpus = cluster.gpus};
  fix_placements(run.placement, limits, demands);
  plan.placement = plan_tensors(demands, limits);
  plan.gpu_graph_bytes = plan.placement.gpu_bytes;
  if (manifest.types.several() && run.gpu_memory_bytes > 0)
    plan.fits_gpu = plan.gpu_training_bytes + plan.gpu_graph_bytes <= room;
}

}  // namespace

std::int64_t training_host_bytes(const RunShape& run, const graph::Manifest& manifest,
                                 const BatchProfile& profile) {
  constexpr double kLibraries = 184 << 20;  // which ranks cannot share: libtorch, relocated, and Open MPI
  constexpr double kCopiesOfModel = 5;      // weights, gradients, two moments, and one to save
  return static_cast<std::int64_t>(kLibraries +
                                   kNodeOfSampler * static_cast<double>(manifest.book.num_nodes()) +
                                   run.batches_in_flight * batch_bytes(manifest, profile) +
                                   activation_bytes(run, manifest, profile) +
                                   kCopiesOfModel * parameters_of(run, manifest) * sizeof(float)) +
         run.learned_bytes;
}

MemoryPlan plan_memory(const RunShape& run, const graph::Manifest& manifest, const Cluster& cluster,
                       const BatchProfile& profile) {
  const std::int64_t row_bytes = feature_row_bytes(manifest, run.feature_format);
  const Largest largest = largest_machine(manifest, cluster.machines, row_bytes);
  MemoryPlan plan;
  plan.feature_bytes = largest.nodes * row_bytes;
  if (cluster.machines > 1 && run.replication != Replication::off) {
    const std::int64_t whole = structure_bytes(run, manifest, largest, cluster.machines, true);
    plan.replicated =
        run.replication == Replication::on || leaves_enough(whole + plan.feature_bytes, cluster.host_memory);
  }
  plan.structure_bytes = structure_bytes(run, manifest, largest, cluster.machines, plan.replicated);
  if (cluster.has_gpus()) {
    plan_gpus(run, manifest, cluster, profile, largest, row_bytes, plan);
    plan.feature_bytes = 0;
    for (const StratumEstimate& stratum : plan.placement.tensors.front().strata)
      if (stratum.stratum == tensor::Stratum::host) plan.feature_bytes = stratum.rows * row_bytes;
  } else {
    plan.training_bytes = cluster.ranks * training_host_bytes(run, manifest, profile);
  }
  plan_copies(run, manifest, cluster, largest, row_bytes, plan);
  plan_cache(run, manifest, cluster, profile, largest, row_bytes, plan);
  plan.fits_host = plan.host_bytes() <= cluster.host_memory;
  return plan;
}

}  // namespace strata::plan
