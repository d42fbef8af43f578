// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/placed_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "placing/halo_choice.hpp"
#include "placing/plan_placement.hpp"
#include "placing/presampler.hpp"
#include "placing/read_counts.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/open_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::batches {
namespace {

/// Host memory that the machine may take while the other machines of the host load, too.
struct MemoryShare {
  std::int64_t free = 0, host_free = 0;
  int ranks = 0, host_ranks = 0;
};

/// The same on all ranks of a machine, so that all of them refuse or none. Collective over all ranks, so that
/// no machine measures while another one allocates.
MemoryShare memory_share(const comm::Ranks& ranks) {
  if (ranks.on_several_machines()) ranks.world->barrier();
  const comm::FreeHostMemory free = comm::free_host_memory(*ranks.machine);
  if (ranks.on_several_machines()) ranks.world->barrier();
  return {.free = free.share_bytes,
          .host_free = free.most_bytes,
          .ranks = ranks.machine->size(),
          .host_ranks = comm::resources_of(*ranks.machine).host_ranks};
}

/// `what` of the graph: "its parts", "its features".
struct Wanted {
  const char* what;
  std::int64_t bytes;
};

void refuse_if_too_large(const Wanted& wanted, const MemoryShare& share, const comm::Ranks& ranks,
                         const graph::Manifest& manifest) {
  if (wanted.bytes <= share.free) return;
  throw OutOfMemory(fmt::format("\"{}\" does not fit in the memory of {}: {} here take {}, free are "
                                "{} ({} of {} ranks of the host, "
                                "which has {} free)",
                                manifest.name, ranks.topology->ranks[at(ranks.world->rank())].host,
                                wanted.what, format_bytes(wanted.bytes), format_bytes(share.free),
                                share.ranks, share.host_ranks, format_bytes(share.host_free)),
                    "Use more machines, build the parts with smaller features (strata-partition build "
                    "--features bf16), or free memory on "
                    "this host.");
}

/// Memory of the GPUs for the graph.
struct GpuBytes {
  std::int64_t each = 0, all = 0;

  GpuBytes(const comm::Machine& machine, const store::LoadOptions& options)
      : each(tensor::gpu_budget(machine, options.gpu_budget_bytes)),
        all(each * tensor::gpus_of(machine).size()) {}
};

/// Whether all machines get the lists of all parts because each has room. Collective over all ranks.
bool replication_fits(const store::OpenParts& parts, const comm::Ranks& ranks, const MemoryShare& share,
                      std::int64_t gpu_bytes) {
  plan::RegionSizes whole = parts.sizes();
  whole.replicated = true;
  const Count edges = parts.manifest().num_edges, local_edges = std::max<Count>(1, whole.local_edges);
  whole.sublists = static_cast<Count>(static_cast<double>(whole.sublists) * static_cast<double>(edges) /
                                      static_cast<double>(local_edges));
  whole.local_edges = edges;
  std::int64_t fits =
      plan::leaves_enough(plan::least_host_bytes(whole, parts.features(), gpu_bytes), share.free) ? 1 : 0;
  ranks.world->all_reduce(std::span(&fits, 1), comm::Communicator::Op::min);
  return fits == 1;
}

/// What is kept of replicated types, whatever the budget.
plan::HaloBudget kept_of_replicated(const store::OpenParts& parts, const comm::Ranks& ranks,
                                    const ReplicatedNodes& replicated, const store::LoadOptions& options) {
  if (!ranks.on_several_machines() || !replicated.any()) return {.rows = false, .lists = false};
  const bool has_rows = parts.manifest().feature_cols > 0;
  return {.rows = has_rows,
          .lists = !parts.sizes().replicated && !options.leaves_edges_out(),
          .row_bytes = has_rows ? parts.features().row_bytes() : 0};
}

plan::HaloBudget halo_budget(const store::OpenParts& parts, const comm::Ranks& ranks,
                             const store::LoadOptions& options, std::int64_t free_bytes,
                             std::int64_t gpu_bytes) {
  if (!ranks.on_several_machines()) return {};
  const bool has_rows = parts.manifest().feature_cols > 0;
  return {
      .bytes = plan::halo_bytes(options.halo_bytes, free_bytes),
      .rows = has_rows,
      .lists = !parts.sizes().replicated && !options.leaves_edges_out() && parts.sizes().num_relations == 1,
      .row_bytes = has_rows ? parts.features().row_bytes() : 0,
      .gpu_bytes = gpu_bytes,
      .num_gpus = tensor::gpus_of(*ranks.machine).size()};
}

/// What batches of this machine's ranks read, and those of other machines here.
struct Counts {
  std::optional<ReadCounts> own;
  std::optional<ServedReads> served;  ///< on runs with GPUs
};

/// Samples batches of all machines, and sends what they read to the owners of the nodes. Collective over all
/// ranks.
Counts count_together(const comm::Ranks& ranks, const store::OpenGraph& graph, const FirstBatches& batches) {
  const store::GraphView nodes = graph.nodes();
  Counts counts;
  ranks.world->together([&] {
    counts.own.emplace(
        ReadCounts::create(*ranks.machine, nodes.num_nodes, {nodes.first_node, nodes.num_local}));
  });
  sample_ahead_together(batches, graph, ranks,
                        [&](const plan::BatchReads& batch) { counts.own->add(batch); });
  counts.own->finish(*ranks.machine);
  if (!comm::ranks_on(*ranks.topology, Device::Kind::cuda).empty())
    counts.served.emplace(exchange_reads(*counts.own, ranks, graph.machine_offsets()));
  return counts;
}

/// The same on all ranks.
struct HaloNeeds {
  bool halo = false, counts = false;
};
HaloNeeds halo_needs(const comm::Ranks& ranks, const store::OpenGraph& graph, const HaloWanted& wanted,
                     const std::optional<FirstBatches>& batches) {
  if (!ranks.on_several_machines()) return {};
  const plan::HaloBudget& budget = wanted.budget;
  const bool keeps = budget.bytes > 0,
             all = plan::holds_all(budget, graph.sizes(), graph.manifest().num_edges, ranks.machine->size());
  const bool counts = keeps && !all && batches && batches->together;
  std::array<std::int64_t, 2> needs{keeps || wanted.of_replicated.any(), counts};
  ranks.world->all_reduce(std::span<std::int64_t>(needs), comm::Communicator::Op::max);
  return {.halo = needs[0] > 0, .counts = needs[1] > 0};
}

store::MachineGraph place_whole(store::OpenGraph graph, const comm::Machine& machine,
                                const store::LoadOptions& options,
                                const std::optional<FirstBatches>& batches) {
  return std::move(graph).place(plan_placement(
      machine, graph, options,
      {.gpu_bytes = GpuBytes(machine, options).each, .batches = batches ? &*batches : nullptr}));
}

}  // namespace

store::MachineGraph load_parts(const graph::PartsOrigin& origin, const comm::Ranks& ranks,
                               const store::LoadOptions& options,
                               const std::optional<FirstBatches>& batches) {
  const comm::Machine& machine = *ranks.machine;
  const comm::Communicator& world = *ranks.world;
  const GpuBytes gpus(machine, options);
  store::OpenParts parts(origin, ranks, options, options.replication == plan::Replication::on);
  const MemoryShare before = memory_share(ranks);
  if (ranks.on_several_machines() && options.replication == plan::Replication::automatic &&
      replication_fits(parts, ranks, before, gpus.all))
    parts.take_all_lists();
  HaloWanted wanted{.budget = {}, .replicated = ReplicatedNodes(parts.manifest())};
  wanted.of_replicated = kept_of_replicated(parts, ranks, wanted.replicated, options);
  const std::int64_t least =
      plan::least_host_bytes(parts.sizes(), parts.features(), gpus.all) +
      wanted.replicated.all().bytes(wanted.of_replicated, parts.sizes(), machine.size());
  // An error of one machine reaches the others, which would otherwise wait for it when memory is measured.
  world.together([&] { refuse_if_too_large({"its parts", least}, before, ranks, parts.manifest()); });
  wanted.budget = halo_budget(parts, ranks, options, before.free - least, gpus.each);
  const Count aliases = plan::most_lists(wanted.budget, parts.sizes(), machine.size()) +
                        (wanted.of_replicated.lists ? wanted.replicated.all().nodes : 0);
  store::OpenGraph graph = std::move(parts).read(aliases);
  if (options.split_nodes && ranks.on_several_machines()) graph.add_up_splits(ranks);

  const HaloNeeds needs = halo_needs(ranks, graph, wanted, batches);
  Counts counts;
  if (needs.counts) counts = count_together(ranks, graph, *batches);
  const ReadCounts* const counted = counts.own ? &*counts.own : nullptr;
  std::int64_t halo_gpu_bytes = 0;  // per GPU, of the halo's lists
  if (needs.halo) {
    store::HaloNodes nodes = choose_halo(ranks, graph, options, wanted, counted);
    halo_gpu_bytes = gpu_bytes_of_lists(nodes, graph.sizes());
    world.together([&] { graph.keep(std::move(nodes)); });
  }

  const MemoryShare share = memory_share(ranks);
  std::optional<store::MachineGraph> placed;
  world.together([&] {
    plan::GraphPlacement placement =
        plan_placement(machine, graph, options,
                       {.gpu_bytes = std::max<std::int64_t>(0, gpus.each - halo_gpu_bytes),
                        .host_bytes = share.free,
                        .batches = batches ? &*batches : nullptr,
                        .counts = counted,
                        .served = counts.served ? &*counts.served : nullptr});
    if (counted != nullptr) placement.presampled_batches = counted->totals().batches;
    counts = {};
    refuse_if_too_large({"its features", placement.host_feature_bytes(graph.features())}, share, ranks,
                        graph.manifest());
    placed.emplace(std::move(graph).place(std::move(placement)));
  });
  return std::move(*placed);
}

store::MachineGraph take_graph(std::unique_ptr<graph::Graph> graph, const comm::Machine& machine,
                               const store::LoadOptions& options,
                               const std::optional<FirstBatches>& batches) {
  return place_whole(store::OpenGraph::of_graph(std::move(graph), machine, options), machine, options,
                     batches);
}

store::MachineGraph generate_graph(const graph::SyntheticSpec& spec, const graph::ReadOptions& read,
                                   const comm::Machine& machine, const store::LoadOptions& options,
                                   ThreadPool& pool, const std::optional<FirstBatches>& batches) {
  return place_whole(
      store::OpenGraph::generate(spec, read, machine, options, GpuBytes(machine, options).all, pool), machine,
      options, batches);
}

}  // namespace strata::batches
