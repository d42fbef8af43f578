// SPDX-License-Identifier: Apache-2.0
#include "placing/plan_placement.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "placing/presampler.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/graph_view.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/tensor/path_rates.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::batches {
namespace {

using enum tensor::Stratum;
constexpr double kGiga = 1e9;

bool logs(const comm::Machine& machine) { return machine.rank() == 0 && machine.index() == 0; }

void log_rates(std::span<const tensor::MeasuredPaths> measured) {
  for (const tensor::MeasuredPaths& m : measured) {
    spdlog::info(
        "random rows of {}: {:.1f} GB/s from the GPU itself, {:.1f} from its peers, {:.1f} from the host{}",
        format_bytes(m.row_bytes), m.rates[replicated].bytes_per_second / kGiga,
        m.rates[striped].bytes_per_second / kGiga, m.rates[host].bytes_per_second / kGiga,
        m.host_threads > 0
            ? fmt::format(", {:.1f} by CPU threads, {:.1f} by both after {}", m.host_threads / kGiga,
                          m.host_both / kGiga, format_seconds(m.host_start))
            : "");
  }
}

void log_plan(const plan::MachinePlan& plan) {
  spdlog::info("placement: {} of each GPU; reads of a batch should take {} (GPU {}, peers {}, host {})",
               format_bytes(plan.gpu_bytes), format_seconds(plan.seconds.batch()),
               format_seconds(plan.seconds[replicated]), format_seconds(plan.seconds[striped]),
               format_seconds(plan.seconds[host]));
}

/// Measures how feature rows should lie in host memory, and logs it. Collective over the machine.
plan::RowLayout choose_layout(const comm::Machine& machine, const plan::FeatureShape& features,
                              std::int64_t host_bytes) {
  const tensor::LayoutRates rates = tensor::measure_layouts(machine, features.row_bytes());
  const plan::RowLayout layout = plan::best_layout(rates, features, host_bytes);
  if (logs(machine)) {
    spdlog::info(
        "host rows of {}: {:.1f} GB/s as they lie, {:.1f} in aligned pieces, {:.1f} padded to {}: {}",
        format_bytes(features.row_bytes()), rates.as_they_lie / kGiga, rates.aligned / kGiga,
        rates.padded / kGiga, format_bytes(features.with_padding().row_pitch()),
        layout.padded          ? "they are padded"
        : layout.aligned_reads ? "they are read in aligned pieces"
                               : "they are read as they lie");
  }
  return layout;
}

/// Ranks the graph's lists, with the visits to them if they are known.
plan::ListRanking rank_lists(const comm::Machine& machine, const store::OpenGraph& graph,
                             const plan::BatchAccesses& accesses, ThreadPool& pool) {
  const std::vector<Count>&parts = graph.list_parts(), &known = graph.features().part_rows;
  const bool all_known =
      parts.size() <= known.size() && std::equal(parts.begin(), parts.end(), known.begin());
  plan::ListRanking lists(graph.lists().indptr, parts,
                          all_known ? std::span(accesses.visits_per_list) : std::span<const double>(),
                          {machine.rank(), machine.size()}, pool);
  machine.communicator().all_reduce(lists.sums());
  return lists;
}

/// What batches read that each rank samples now.
std::optional<MeanReads> count_ahead(const comm::Machine& machine, const store::OpenGraph& graph,
                                     const FirstBatches& batches) {
  const auto start = std::chrono::steady_clock::now();
  AccessCounter counter(graph.nodes(), graph.features().part_rows, graph.halo_rows());
  machine.together([&] {
    sample_ahead(batches, graph, machine, [&](const plan::BatchReads& batch) { counter.add(batch); });
  });
  auto counted = counter.mean(machine);
  if (counted && logs(machine)) {
    spdlog::info(
        "accesses of {} batches counted in {}", format_count(counted->batches),
        format_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
  }
  return counted;
}

/// Sampling takes time, and changes nothing where every GPU has room for all.
bool should_sample(const FirstBatches* batches, const plan::GraphDemand& demand) {
  return batches != nullptr && (batches->always || !plan::all_fit(demand.tensors, demand.limits));
}

}  // namespace

GraphHeat heat_of_structure(const comm::Machine& machine, const store::OpenGraph& graph,
                            const plan::BatchShape& batch) {
  ThreadPool pool(comm::resources_of(machine).cores);
  const store::GraphView nodes = graph.nodes();
  plan::HeatCounter counter({.first_node = nodes.first_node,
                             .num_local = nodes.num_local,
                             .indptr = nodes.indptr,
                             .indices = nodes.indices,
                             .part_rows = graph.features().part_rows,
                             .fanouts = batch.fanouts,
                             .halo_occurrences = graph.features().halo_occurrences},
                            {machine.rank(), machine.size()}, pool);
  machine.communicator().all_reduce(counter.sums());
  GraphHeat known{.lists = {}, .accesses = plan::expect_accesses(counter.heat(), batch)};
  known.lists = rank_lists(machine, graph, known.accesses, pool);
  known.accesses.list_visits = known.lists.curves(known.accesses.lists);
  return known;
}

plan::GraphPlacement plan_placement(const comm::Machine& machine, const store::OpenGraph& graph,
                                    const store::LoadOptions& options, const PlacementTask& task) {
  const plan::PlanLimits limits{.gpu_bytes = task.gpu_bytes,
                                .host_bytes = task.host_bytes,
                                .num_gpus = tensor::gpus_of(machine).size()};
  const plan::RegionSizes& sizes = graph.sizes();
  const plan::FeatureShape& features = graph.features();
  if (limits.num_gpus == 0) return plan::place_on_host(sizes, features, limits, options.placement);

  const std::vector<tensor::MeasuredPaths> rates = tensor::measure_path_rates(
      machine, plan::row_lengths(sizes, features), {.threads = options.host_threads});
  const std::vector<plan::ListPart> list_parts =
      plan::list_parts_of(graph.lists().indptr, graph.list_parts());
  const auto demand_of = [&](const GraphHeat& heat, const plan::FeatureShape& shape) -> plan::GraphDemand {
    return {.tensors =
                plan::graph_demands({.sizes = sizes,
                                     .features = shape,
                                     .accesses = heat.accesses,
                                     .rates = rates,
                                     .host_path = options.host_path,
                                     .list_parts = list_parts,
                                     .directory_bytes = store::AdjacencyCacheView::bytes(sizes.num_lists())}),
            .limits = plan::without_inputs(limits, heat.accesses, options.bytes_per_input_row)};
  };
  GraphHeat heat = heat_of_structure(machine, graph, options.batch);
  std::optional<MeanReads> counted;
  if (task.counts != nullptr)
    counted = mean_accesses(machine, *task.counts, task.served, {features.part_rows, graph.halo_rows()});
  else if (should_sample(task.batches, demand_of(heat, features)))
    counted = count_ahead(machine, graph, *task.batches);
  if (counted) {
    heat.accesses = std::move(counted->accesses);
    heat.accesses.list_visits = heat.lists.curves(heat.accesses.lists);
  }

  plan::ChosenPlan chosen = plan::choose_plan(demand_of(heat, features), options.placement);
  plan::RowLayout layout;
  if (plan::layout_matters(features.row_bytes()) && plan::realise(chosen).host_feature_bytes(features) > 0) {
    layout = choose_layout(machine, features, task.host_bytes);
    if (layout.padded)
      chosen = plan::choose_plan(demand_of(heat, features.with_padding()), options.placement);
  }
  if (logs(machine)) {
    log_rates(rates);
    log_plan(chosen.plan);
  }
  plan::GraphPlacement placement = plan::realise(std::move(chosen));
  placement.lists = std::move(heat.lists);
  placement.layout = layout;
  placement.presampled_batches = counted ? counted->batches : 0;
  return placement;
}

}  // namespace strata::batches
