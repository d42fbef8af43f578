// SPDX-License-Identifier: Apache-2.0
#include "graph_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "strata/placement/path_rates.hpp"
#include "strata/tensor/gpu_map.hpp"
#include "strata/util/format.hpp"
#include "strata/util/log.hpp"
#include "tensor_names.hpp"

namespace strata::store {
namespace {

constexpr std::int64_t kOffsetWidth = sizeof(Count), kDegreeWidth = sizeof(std::int32_t),
                       kWeightWidth = sizeof(float), kEdgeIdWidth = sizeof(EdgeId);

std::int64_t id_width(const RegionSizes& sizes) { return sizes.wide_nodes() ? 8 : 4; }

/// An entry of `indices` with what else there is of its edge.
std::int64_t entry_bytes(const RegionSizes& sizes) {
  return id_width(sizes) + (sizes.weights ? kWeightWidth : 0) + (sizes.edge_ids ? kEdgeIdWidth : 0);
}

std::vector<std::int64_t> row_lengths(const RegionSizes& sizes, const FeatureShape& features) {
  std::vector<std::int64_t> lengths = {kOffsetWidth, id_width(sizes), entry_bytes(sizes)};
  if (sizes.in_degrees) lengths.push_back(kDegreeWidth);
  if (features.row_bytes() > 0) lengths.push_back(features.row_bytes());
  std::ranges::sort(lengths);
  const auto repeated = std::ranges::unique(lengths);
  lengths.erase(repeated.begin(), repeated.end());
  return lengths;
}

std::vector<MeasuredRates> measure(const comm::Machine& machine, std::span<const std::int64_t> lengths,
                                   int host_threads) {
  const std::vector<placement::MeasuredPaths> rates =
      placement::measure_path_rates(machine, lengths, {.threads = host_threads});
  std::vector<MeasuredRates> measured;
  for (std::size_t i = 0; i < lengths.size(); ++i) measured.push_back({lengths[i], rates[i]});
  return measured;
}

BatchAccesses accesses_of(const comm::Machine& machine, const GraphView& view, const PlacementTask& task) {
  const NodeHeat heat = count_heat(machine, {.graph = view,
                                             .part_rows = task.features.part_rows,
                                             .fanouts = task.options.batch.fanouts,
                                             .halo_occurrences = task.features.halo_occurrences});
  return expect_accesses(heat, task.options.batch);
}

std::optional<AccessCounter::Mean> presample(const comm::Machine& machine, const GraphRegions& regions,
                                             const PlacementTask& task) {
  const auto start = std::chrono::steady_clock::now();
  const GraphView view = regions.view();
  AccessCounter counter(view, task.features.part_rows, task.halo);
  machine.together([&] {
    task.options.presampling.run(
        {regions.lists_view(), regions.train.span(), view.first_node, view.num_local},
        [&](const BatchReads& batch) { counter.add(batch); });
  });
  auto mean = counter.mean(machine);
  if (mean && machine.rank() == 0 && machine.index() == 0) {
    spdlog::info(
        "accesses of {} batches counted in {}", format_count(mean->batches),
        format_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
  }
  return mean;
}

/// What the input rows of batches take; some batches have more than expected.
std::int64_t input_bytes(const BatchAccesses& accesses, const LoadOptions& options) {
  constexpr double kMargin = 1.25;
  return static_cast<std::int64_t>(accesses.nodes * kMargin *
                                   static_cast<double>(options.bytes_per_input_row));
}

/// Measures how feature rows should lie in host memory; padding must leave room for all of them there.
placement::RowLayout choose_layout(const comm::Machine& machine, const PlacementTask& task) {
  const FeatureShape& features = task.features;
  const placement::LayoutRates rates = placement::measure_layouts(machine, features.row_bytes());
  placement::RowLayout layout = placement::best_layout(rates);
  FeatureShape padded = features;
  padded.padded = true;
  layout.padded = layout.padded && features.rows() * padded.row_pitch() <= task.host_bytes;
  if (machine.rank() == 0 && machine.index() == 0) {
    constexpr double kGiga = 1e9;
    spdlog::info(
        "host rows of {}: {:.1f} GB/s as they lie, {:.1f} in aligned pieces, {:.1f} padded to {}: {}",
        format_bytes(features.row_bytes()), rates.as_they_lie / kGiga, rates.aligned / kGiga,
        rates.padded / kGiga, format_bytes(padded.row_pitch()),
        layout.padded          ? "they are padded"
        : layout.aligned_reads ? "they are read in aligned pieces"
                               : "they are read as they lie");
  }
  return layout;
}

void log_plan(const comm::Machine& machine, std::span<const MeasuredRates> measured,
              const placement::MachinePlan& plan) {
  if (machine.rank() > 0 || machine.index() > 0) return;
  for (const MeasuredRates& m : measured) {
    constexpr double kGiga = 1e9;
    spdlog::info(
        "random rows of {}: {:.1f} GB/s from the GPU itself, {:.1f} from its peers, {:.1f} from the host{}",
        format_bytes(m.row_bytes), m.paths.rates.local / kGiga, m.paths.rates.peer / kGiga,
        m.paths.rates.host / kGiga,
        m.paths.host_threads > 0
            ? fmt::format(", {:.1f} by CPU threads, {:.1f} by both after {}", m.paths.host_threads / kGiga,
                          m.paths.host_both / kGiga, format_seconds(m.paths.host_start))
            : "");
  }
  spdlog::info("placement: {} of each GPU; reads of a batch should take {} (GPU {}, peers {}, host {})",
               format_bytes(plan.gpu_bytes), format_seconds(plan.seconds.batch()),
               format_seconds(plan.seconds.local), format_seconds(plan.seconds.peer),
               format_seconds(plan.seconds.host));
}

tensor::Placement all_on_host(const FeatureShape& features) {
  tensor::Placement placement;
  for (const Count rows : features.part_rows) placement.segments.push_back({.host = rows});
  return placement;
}

/// Of an array that can be divided; null for the others.
template <typename Placements>
auto* placement_of(Placements& placement, std::string_view name) {
  return name == kFeatures  ? &placement.features
         : name == kIndptr  ? &placement.indptr
         : name == kIndices ? &placement.indices
                            : nullptr;
}

/// Takes what the plan says of each tensor.
void adopt(const placement::MachinePlan& plan, GraphPlacement& placement) {
  for (const placement::TensorPlan& tensor : plan.tensors) {
    if (tensor::Placement* divided = placement_of(placement, tensor.name)) {
      *divided = tensor.placement;
      continue;
    }
    const bool on_gpu = tensor.placement.segments[0].replicated > 0;
    if (tensor.name == kOriginalIds) placement.original_ids = on_gpu;
    if (tensor.name == kInDegrees) placement.in_degrees = on_gpu;
  }
}

/// As realised: without peer access, stripes have gone to the host.
std::vector<tensor::Placement> realised(const GraphPlacement& placement,
                                        const tensor::ChunkTensor& features) {
  std::vector<tensor::Placement> placements;
  for (const placement::TensorDemand& demand : placement.demands) {
    const bool on_gpu = (demand.name == kOriginalIds && placement.original_ids) ||
                        (demand.name == kInDegrees && placement.in_degrees);
    const tensor::Placement* divided =
        demand.name == kFeatures ? &features.placement() : placement_of(placement, demand.name);
    if (divided == nullptr) {
      placements.push_back(on_gpu ? tensor::Placement::replicated(demand.rows())
                                  : tensor::Placement::on_host(demand.rows()));
    } else if (divided->segments.size() == demand.segments.size()) {
      placements.push_back(*divided);
    } else {  // a tensor that lies on the host alone forgets its segments
      tensor::Placement host;
      for (const placement::HeatCurve& curve : demand.segments)
        host.segments.push_back({.host = curve.rows()});
      placements.push_back(std::move(host));
    }
  }
  return placements;
}

/// The parts whose lists are here, with their entries.
std::vector<ListPart> list_parts_of(const GraphRegions& regions, const PlacementTask& task) {
  std::vector<ListPart> parts;
  const Count* begin = regions.indptr.data();
  for (const Count nodes : task.list_parts) {
    parts.push_back({nodes, begin[nodes] - begin[0]});
    begin += nodes;
  }
  return parts;
}

/// Of the lists of these parts, with the visits to them if they are known.
ListRanking rank_lists(const comm::Machine& machine, const GraphRegions& regions, const PlacementTask& task,
                       const BatchAccesses& accesses) {
  const std::vector<Count>&parts = task.list_parts, &known = task.features.part_rows;
  const bool all_known =
      parts.size() <= known.size() && std::equal(parts.begin(), parts.end(), known.begin());
  return {machine, regions.indptr.data(), parts,
          all_known ? std::span(accesses.visits_per_list) : std::span<const double>()};
}

const char* name_of(tensor::Stratum stratum) {
  switch (stratum) {
    case tensor::Stratum::replicated:
      return "replicated";
    case tensor::Stratum::striped:
      return "striped";
    case tensor::Stratum::host:
      return "host";
  }
  return "";
}

}  // namespace

Count FeatureShape::rows() const { return std::accumulate(part_rows.begin(), part_rows.end(), Count{0}); }

std::int64_t GraphPlacement::host_feature_bytes(const FeatureShape& shape) const {
  Count host_rows = 0;
  for (const tensor::Segment& s : features.segments) host_rows += s.host;
  const FeatureShape laid_out{
      .cols = shape.cols, .dtype = shape.dtype, .part_rows = {}, .padded = layout.padded};
  return host_rows * laid_out.row_pitch();
}

std::int64_t least_host_bytes(const RegionSizes& sizes, const FeatureShape& features,
                              std::int64_t gpu_bytes) {
  return sizes.bytes() + std::max<std::int64_t>(0, features.rows() * features.row_bytes() - gpu_bytes);
}

std::vector<placement::TensorDemand> graph_demands(const RegionSizes& sizes, const FeatureShape& features,
                                                   const BatchAccesses& accesses,
                                                   std::span<const MeasuredRates> measured,
                                                   tensor::HostPath host_path,
                                                   std::span<const ListPart> list_parts) {
  const auto rates_of = [&](std::int64_t row_bytes, std::int64_t table_bytes, tensor::HostPath path) {
    const auto found = std::ranges::find(measured, row_bytes, &MeasuredRates::row_bytes);
    if (found == measured.end()) return placement::PathRates{};
    placement::PathRates rates = found->paths.rates;
    const placement::HostRate host =
        placement::host_rate_of_table(found->paths, row_bytes, table_bytes, path);
    rates.host = host.bytes_per_second;
    rates.host_start = host.start_seconds;
    return rates;
  };
  std::vector<placement::TensorDemand> demands;
  const auto add = [&](const char* name, std::int64_t width, Count rows, double reads) {
    demands.push_back({.name = name,
                       .row_bytes = width,
                       .segments = {placement::HeatCurve::flat(rows, reads)},
                       .rates = rates_of(width, rows * width, tensor::HostPath::zero_copy),
                       .whole = true});
  };
  const ListPart all{sizes.num_lists(), sizes.local_edges};
  const std::span<const ListPart> parts = list_parts.empty() ? std::span(&all, 1) : list_parts;
  add(kIndptr, kOffsetWidth, all.nodes + 1, accesses.lists);
  demands.back().divisible = true;
  demands.back().segments.clear();
  for (const ListPart& part : parts) {
    const Count rows = part.nodes + (&part == &parts.back() ? 1 : 0);
    const double share = static_cast<double>(rows) / static_cast<double>(all.nodes + 1);
    demands.back().segments.push_back(placement::HeatCurve::flat(rows, accesses.lists * share));
  }
  // A visit reads entries that lie together: those on the host in the time of one random row an array.
  add(kIndices, entry_bytes(sizes), all.entries, accesses.lists);
  placement::TensorDemand& lists = demands.back();
  lists.rows_per_access = accesses.lists > 0 ? std::max(1.0, accesses.neighbors / accesses.lists) : 1;
  lists.rates.host *= lists.rows_per_access / (1.0 + sizes.weights + sizes.edge_ids);
  lists.divisible = true;
  lists.whole = accesses.list_visits.empty();
  lists.division_bytes =
      AdjacencyCacheView::num_groups(all.nodes) * std::int64_t{sizeof(AdjacencyCacheView::Group)};
  lists.segments = accesses.list_visits;
  if (lists.whole) {
    for (const ListPart& part : parts) {
      const double share =
          static_cast<double>(part.entries) / std::max(1.0, static_cast<double>(all.entries));
      lists.segments.push_back(placement::HeatCurve::flat(part.entries, accesses.lists * share));
    }
  }
  add(kOriginalIds, id_width(sizes), sizes.num_nodes, accesses.lists);
  if (sizes.in_degrees) add(kInDegrees, kDegreeWidth, sizes.num_nodes, accesses.nodes);
  demands.push_back(
      {.name = kFeatures,
       .row_bytes = features.row_pitch(),
       .segments = accesses.features,
       .rates = rates_of(features.row_bytes(), features.rows() * features.row_pitch(), host_path)});
  return demands;
}

bool all_fit(std::span<const placement::TensorDemand> demands, const placement::PlanLimits& limits) {
  std::int64_t bytes = 0;
  for (const placement::TensorDemand& demand : demands) bytes += demand.rows() * demand.row_bytes;
  return bytes <= limits.gpu_bytes;
}

GraphPlacement plan_placement(const comm::Machine& machine, const GraphRegions& regions,
                              const PlacementTask& task) {
  GraphPlacement placement;
  placement.features = all_on_host(task.features);
  placement.limits = {.gpu_bytes = task.gpu_bytes,
                      .host_bytes = task.host_bytes,
                      .num_gpus = tensor::gpus_of(machine).size()};
  const RegionSizes& sizes = regions.sizes;
  if (placement.limits.num_gpus == 0) {
    std::vector<placement::TensorDemand> demands = graph_demands(sizes, task.features, {}, {});
    placement::fix_placements(task.options.placement, placement.limits, demands);
    return placement;
  }
  const std::vector<MeasuredRates> measured =
      measure(machine, row_lengths(sizes, task.features), task.options.host_threads);
  const std::vector<ListPart> list_parts = list_parts_of(regions, task);
  BatchAccesses accesses = accesses_of(machine, regions.view(), task);
  placement.lists = rank_lists(machine, regions, task, accesses);
  const auto demand = [&](const FeatureShape& features) {
    placement.limits.gpu_bytes =
        std::max<std::int64_t>(0, task.gpu_bytes - input_bytes(accesses, task.options));
    accesses.list_visits = placement.lists.curves(accesses.lists);
    placement.demands =
        graph_demands(sizes, features, accesses, measured, task.options.host_path, list_parts);
  };
  demand(task.features);
  const Presampling& presampling = task.options.presampling;
  if (presampling.run && (presampling.always || !all_fit(placement.demands, placement.limits))) {
    if (auto counted = presample(machine, regions, task)) {
      accesses = std::move(counted->accesses);
      demand(task.features);
      placement.presampled_batches = counted->batches;
    }
  }
  const auto plan = [&] {
    placement::fix_placements(task.options.placement, placement.limits, placement.demands);
    const placement::MachinePlan plan = placement::plan_tensors(placement.demands, placement.limits);
    adopt(plan, placement);
    return plan;
  };
  placement::MachinePlan chosen = plan();
  if (placement::layout_matters(task.features.row_bytes()) &&
      placement.host_feature_bytes(task.features) > 0) {
    placement.layout = choose_layout(machine, task);
    if (placement.layout.padded) {
      FeatureShape padded = task.features;
      padded.padded = true;
      demand(padded);
      chosen = plan();
    }
  }
  log_plan(machine, measured, chosen);
  return placement;
}

std::vector<MachineGraph::PlanRow> plan_rows(const GraphRegions& regions, const GraphPlacement& placement,
                                             const tensor::ChunkTensor& features) {
  using PlanRow = MachineGraph::PlanRow;
  std::vector<PlanRow> rows;
  if (!placement.demands.empty()) {
    for (const placement::TensorPlan& tensor :
         placement::estimate(placement.demands, realised(placement, features), placement.limits).tensors) {
      for (const placement::StratumEstimate& s : tensor.strata) {
        rows.push_back({tensor.name, name_of(s.stratum), s.rows, s.rows * tensor.row_bytes,
                        PlanRow::Expected{s.share, s.bytes_per_second}});
      }
    }
  } else {
    const auto add = [&](const char* tensor, Count count, std::size_t bytes) {
      if (count > 0) rows.push_back({tensor, "host", count, static_cast<std::int64_t>(bytes), {}});
    };
    add(kIndptr, regions.indptr.size(), regions.indptr.span().size_bytes());
    add(kIndices, regions.indices.view().size, regions.indices.bytes());
    add(kWeights, regions.weights.size(), regions.weights.span().size_bytes());
    add(kOriginalIds, regions.original_ids.view().size, regions.original_ids.bytes());
    add(kInDegrees, regions.in_degrees.size(), regions.in_degrees.span().size_bytes());
    add(kEdgeIds, regions.edge_ids.size(), regions.edge_ids.span().size_bytes());
    const tensor::TensorSpec& spec = features.spec();
    if (spec.row_bytes() > 0) {
      add(kFeatures, spec.rows, static_cast<std::size_t>(spec.rows) * spec.row_bytes());
    }
  }
  return rows;
}

}  // namespace strata::store
