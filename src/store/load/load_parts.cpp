// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "cache/halo_regions.hpp"
#include "cache/read_counts.hpp"
#include "load/late_rows.hpp"
#include "load/loop_degrees.hpp"
#include "load/part_loader.hpp"
#include "load/train_edges.hpp"
#include "machine_graph_state.hpp"
#include "placement/graph_heat.hpp"
#include "placement/own_groups.hpp"
#include "placement/plan_placement.hpp"
#include "strata/comm/ranks.hpp"
#include "strata/comm/resources.hpp"
#include "strata/tensor/gpu_map.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::store {
namespace {

/// Host memory that the machine may take while the other machines of the host load, too.
struct MemoryShare {
  std::int64_t free = 0, host_free = 0;
  int ranks = 0, host_ranks = 0;
};

/// The same on all ranks of a machine, so that all of them refuse or none. Collective over `world`, so that
/// no machine measures while another one allocates.
MemoryShare memory_share(const comm::Communicator& world, const comm::Machine& machine) {
  if (machine.size() < world.size()) world.barrier();
  const comm::FreeHostMemory free = comm::free_host_memory(machine);
  if (machine.size() < world.size()) world.barrier();
  return {.free = free.share_bytes,
          .host_free = free.most_bytes,
          .ranks = machine.size(),
          .host_ranks = comm::resources_of(machine).host_ranks};
}

/// `what` of the graph: "its parts", "its features".
struct Wanted {
  const char* what;
  std::int64_t bytes;
};

void refuse_if_too_large(const Wanted& wanted, const MemoryShare& share, const std::string& host,
                         const graph::Manifest& manifest) {
  if (wanted.bytes <= share.free) return;
  throw OutOfMemory(
      fmt::format("\"{}\" does not fit in the memory of {}: {} here take {}, free are "
                  "{} ({} of {} ranks of the host, "
                  "which has {} free)",
                  manifest.name, host, wanted.what, format_bytes(wanted.bytes), format_bytes(share.free),
                  share.ranks, share.host_ranks, format_bytes(share.host_free)),
      "Use more machines, build the parts with smaller features (strata-partition build "
      "--features bf16), or free memory on "
      "this host.");
}

/// One call of load(). Each step is collective over the machine and fails on all of its ranks alike.
class Loading {
 public:
  Loading(GraphState& state, const comm::Machine& machine, const LoadOptions& options, int num_threads)
      : state_(state), machine_(machine), options_(options), pool_(num_threads) {}

  /// Collective over `world`; fails on all of its ranks alike.
  void open(const graph::PartsOrigin& origin, const comm::Communicator& world, int num_machines) {
    num_machines_ = num_machines;
    world.together([&] {
      state_.manifest = graph::read_manifest(origin);
      check_edge_weights(state_.manifest, options_);
      const graph::PartitionBook& book = state_.manifest.book;
      const std::vector<int> parts = graph::parts_of_machines(book.num_parts(), num_machines);
      for (const int part : parts)
        state_.machine_offsets.push_back(book.offsets()[static_cast<std::size_t>(part)]);
      const auto index = static_cast<std::size_t>(machine_.index());
      parts_ = {parts[index], parts[index + 1] - parts[index]};
      open_parts(origin, options_.replication == Replication::on);
      split_sizes_ = loader_->read_split_sizes();
    });
    if (world.rank() == 0) warn_if_unverified(origin);
    machine_.communicator().all_reduce(std::span(split_sizes_));
  }

  /// Decides that all machines have the lists of all parts, if each has room. Collective over `world`.
  void replicate_if_it_fits(const graph::PartsOrigin& origin, const comm::Communicator& world,
                            const MemoryShare& share, std::int64_t gpu_bytes) {
    if (num_machines_ == 1 || options_.replication != Replication::automatic) return;
    RegionSizes whole = region_sizes();
    whole.replicated = true;
    whole.local_edges = state_.manifest.num_edges;
    constexpr double kUsable = 0.8;
    const auto wanted = static_cast<double>(store::least_host_bytes(whole, feature_shape(), gpu_bytes));
    std::int64_t fits = wanted <= kUsable * static_cast<double>(share.free) ? 1 : 0;
    world.all_reduce(std::span(&fits, 1), comm::Communicator::Op::min);
    if (fits == 0) return;
    world.together([&] {
      open_parts(origin, true);
      loader_->read_split_sizes();
    });
  }

  std::int64_t least_host_bytes(std::int64_t gpu_bytes) const {
    return store::least_host_bytes(region_sizes(), feature_shape(), gpu_bytes);
  }

  void read_structure(bool show_progress, std::int64_t host_bytes, std::int64_t gpu_bytes) {
    RegionSizes sizes = region_sizes();
    budget_ = halo_budget(host_bytes, gpu_bytes);
    sizes.aliases = budget_.lists ? most_lists(sizes, budget_.bytes, machine_.size()) : 0;
    state_.regions.emplace(GraphRegions::create(machine_, sizes));
    if (show_progress && progress_style() == ProgressStyle::lines)
      spdlog::info("loading the structure of the parts, {}", format_bytes(sizes.bytes()));
    progress_.emplace("load graph", loader_->share_bytes(options_), "B", show_progress);
    machine_.together([&] {
      if (machine_.rank() == 0) {
        std::ranges::fill(state_.regions->train.span(), NodeId{-1});
        std::ranges::fill(state_.regions->train_clusters.span(), -1);
      }
      loader_->read_structure(*state_.regions, *progress_);
    });
    machine_.together([&] { loader_->write_splits(*state_.regions, split_sizes_); });
    machine_.together([&] { check_train(); });
  }

  /// Takes the edges out that no training node has on both ends. Collective over `world`, as are its errors.
  void keep_train_edges(const comm::Communicator& world) {
    world.together([&] { state_.whole.emplace(store::keep_train_edges(*state_.regions, machine_)); });
    count_train_degrees(*state_.regions, machine_, world, options_.degrees_of_loops);
  }

  /// Chooses what to keep of other machines' nodes, and reads their lists. Collective over `world`, as are
  /// its errors.
  void read_halo(const comm::Ranks& ranks) {
    const comm::Communicator& world = *ranks.world;
    HaloTask task{.ranks = ranks,
                  .regions = *state_.regions,
                  .loader = *loader_,
                  .pool = pool_,
                  .options = options_,
                  .budget = budget_,
                  .num_edges = state_.manifest.num_edges};
    const HaloNeeds needs = halo_needs(task);
    if (needs.presampling) count_reads(ranks);
    if (!needs.halo) return;
    task.counts = counts_ ? &*counts_ : nullptr;
    world.together([&] {
      if (options_.exchange_costs && budget_.num_gpus > 0) task.own = own_groups();
    });
    HaloChoice choice = choose_halo(task);
    state_.cache_decisions = std::move(choice.decisions);
    halo_nodes_ = std::make_shared<HaloNodes>(std::move(choice.nodes));
    world.together([&] {
      list_gpu_bytes_ = gpu_bytes_of_lists(*halo_nodes_, state_.regions->sizes);
      if (halo_nodes_->lists) state_.halo.emplace(store::read_halo(task, *halo_nodes_));
      halo_nodes_->lists.reset();
      if (!halo_nodes_->rows) return;
      const std::span<const NodeId> rows = halo_nodes_->rows->span();
      state_.halo_rows = NodeIndex(rows, state_.manifest.book.num_nodes());
      state_.halo_rows_are_rounded = rounds_halo_rows();
      machine_.together([&] { loader_->add_feature_rows(rows); });
    });
  }

  /// Plans by the heat that the structure shows; `host_bytes` are left for features.
  void plan(std::int64_t gpu_bytes, std::int64_t host_bytes) {
    const FeatureShape features = feature_shape();
    PlacementTask task = placement_task(features);
    task.gpu_bytes = std::max<std::int64_t>(0, gpu_bytes - list_gpu_bytes_);
    task.host_bytes = host_bytes;
    placement_ = plan_placement(machine_, *state_.regions, task);
    if (counts_) placement_.presampled_batches = counts_->totals().batches;
    counts_.reset();
    served_.reset();
  }

  std::int64_t host_feature_bytes() const { return placement_.host_feature_bytes(feature_shape()); }

  void fill_features(bool show_progress) {
    if (show_progress && progress_style() == ProgressStyle::lines)
      spdlog::info("loading features, {} of them in host memory", format_bytes(host_feature_bytes()));
    state_.make_features(machine_, placement_, options_);
    const FeatureSource source = loader_->features();
    const HotAndLate rows =
        options_.late_features ? hot_and_late(state_.features->placement(), machine_.size()) : HotAndLate{};
    store::fill_features(machine_, *state_.features, {source, row_form(), *progress_, pool_, rows.hot});
    state_.place(machine_, placement_);
    progress_.reset();
    if (!rows.late.empty()) read_late(rows, show_progress);
  }

 private:
  void warn_if_unverified(const graph::PartsOrigin& origin) const {
    const graph::Manifest& manifest = state_.manifest;
    if (!options_.verify_parts || !manifest.part_records || manifest.has_block_hashes()) return;
    spdlog::warn(
        "{0} has no hashes of blocks (an older strata-partition built it): damage to its files goes unseen. "
        "Run "
        "`strata-partition verify {0}`, or build it again",
        graph::name_of(origin));
  }

  void open_parts(const graph::PartsOrigin& origin, bool all_lists) {
    origin_ = origin;
    replicated_ = all_lists && num_machines_ > 1;
    loader_.emplace(source_of_parts(replicated_, verify()),
                    PartLoader::Rank{machine_.rank(), machine_.size()}, pool_);
  }

  graph::Verify verify() const { return options_.verify_parts ? graph::Verify::on : graph::Verify::off; }

  PartLoader::Source source_of_parts(bool all_lists, graph::Verify verify) const {
    return {.origin = origin_,
            .manifest = state_.manifest,
            .parts = parts_,
            .all_lists = all_lists,
            .verify = verify};
  }

  /// The part files, for reading that goes on when this object is gone.
  struct LateSource {
    ThreadPool pool{1};
    std::shared_ptr<const HaloNodes> halo_nodes;
    PartLoader checked, single;

    LateSource(const PartLoader::Source& with_hashes, const PartLoader::Source& without,
               PartLoader::Rank rank, std::shared_ptr<const HaloNodes> kept)
        : halo_nodes(std::move(kept)), checked(with_hashes, rank, pool), single(without, rank, pool) {
      if (halo_nodes == nullptr || !halo_nodes->rows) return;
      checked.add_feature_rows(halo_nodes->rows->span());
      single.add_feature_rows(halo_nodes->rows->span());
    }
  };

  bool rounds_halo_rows() const {
    const bool compressed = state_.manifest.feature_code || options_.feature_format != FeatureFormat::stored;
    return options_.halo_rows_in_bf16 && !compressed;
  }

  RowForm row_form() const {
    RowForm form{type_of_rows(state_.manifest), options_.row_normalize};
    if (rounds_halo_rows()) form.bf16_from = loader_->num_local();
    return form;
  }

  void read_late(const HotAndLate& rows, bool show_progress) {
    std::shared_ptr<LateSource> source;
    machine_.together([&] {
      source = std::make_shared<LateSource>(source_of_parts(false, verify()),
                                            source_of_parts(false, graph::Verify::off),
                                            PartLoader::Rank{machine_.rank(), machine_.size()}, halo_nodes_);
    });
    if (show_progress) {
      spdlog::info("{} of {} feature rows are in place; the others are read while training begins",
                   format_count(state_.features->spec().rows - rows.late_rows()),
                   format_count(state_.features->spec().rows));
    }
    state_.arrival = store::read_late(machine_, *state_.features, rows.late,
                                      {.checked = source->checked.features(),
                                       .single = source->single.features(),
                                       .form = row_form(),
                                       .threads = std::max(1, pool_.num_threads() / 2),
                                       .keep_alive = source});
  }

  PlacementTask placement_task(const FeatureShape& features) const {
    return {.features = features,
            .options = options_,
            .halo = state_.halo_rows.size() > 0 ? &state_.halo_rows : nullptr,
            .list_parts = list_parts(),
            .counts = counts_ ? &*counts_ : nullptr,
            .served = served_ ? &*served_ : nullptr};
  }

  HaloBudget halo_budget(std::int64_t free_bytes, std::int64_t gpu_bytes) const {
    if (num_machines_ == 1) return {};
    const bool has_rows = state_.manifest.feature_cols > 0;
    return {.bytes = options_.halo_bytes == LoadOptions::kAutomatic ? free_bytes / 10 : options_.halo_bytes,
            .rows = has_rows,
            .lists = !replicated_ && !options_.train_edges_only,
            .row_bytes = has_rows ? feature_shape().row_bytes() : 0,
            .gpu_bytes = gpu_bytes,
            .num_gpus = tensor::gpus_of(machine_).size()};
  }

  /// The same on all ranks.
  struct HaloNeeds {
    bool halo = false, presampling = false;
  };
  HaloNeeds halo_needs(const HaloTask& task) const {
    if (num_machines_ == 1) return {};
    const bool keeps = budget_.bytes > 0,
               asks_heat = keeps && (options_.exchange_costs.has_value() || !holds_all(task));
    std::array<std::int64_t, 2> needs{keeps, asks_heat && options_.presampling.together};
    task.ranks.world->all_reduce(std::span<std::int64_t>(needs), comm::Communicator::Op::max);
    return {.halo = needs[0] > 0, .presampling = needs[1] > 0};
  }

  /// Samples batches of all machines, and tells those that have GPUs what others read of their nodes.
  void count_reads(const comm::Ranks& ranks) {
    const GraphView view = state_.regions->view();
    ranks.world->together([&] {
      counts_.emplace(ReadCounts::create(machine_, view.num_nodes, {view.first_node, view.num_local}));
    });
    const std::span<const NodeId> all = state_.manifest.book.offsets();
    const std::span offsets =
        all.subspan(static_cast<std::size_t>(parts_.first), static_cast<std::size_t>(parts_.count) + 1);
    const Presampling::Source::Ranks askers{*ranks.world, *ranks.topology, state_.machine_offsets,
                                            machine_.index()};
    const GraphView lists = state_.regions->lists_view();
    options_.presampling.run({.graph = lists,
                              .train_nodes = state_.regions->train.span(),
                              .part_offsets = offsets,
                              .train_clusters = state_.regions->train_clusters.span(),
                              .ranks = &askers},
                             [&](const BatchReads& batch) { counts_->add(batch); });
    counts_->finish(machine_);
    if (!comm::ranks_on(*ranks.topology, Device::Kind::cuda).empty())
      served_.emplace(exchange_reads(*counts_, ranks, state_.machine_offsets));
  }

  /// What competes with the halo for the GPUs.
  std::vector<placement::KeepGroup> own_groups() const {
    const FeatureShape features = feature_shape();
    const GraphHeat heat = heat_of_structure(machine_, *state_.regions, placement_task(features));
    return store::own_groups(heat.accesses,
                             {.row_bytes = features.row_bytes(),
                              .entry_bytes = edge_bytes_of(state_.regions->sizes),
                              .stripes = options_.exchange_costs->striped ? budget_.num_gpus : 1},
                             *options_.exchange_costs);
  }

  RegionSizes region_sizes() const {
    RegionSizes sizes{.num_nodes = state_.manifest.book.num_nodes(),
                      .first_node = loader_->first_node(),
                      .num_local = loader_->num_local(),
                      .local_edges = loader_->local_edges(),
                      .num_train = state_.manifest.num_train,
                      .edge_ids = options_.edge_ids,
                      .weights = options_.edge_weights,
                      .in_degrees = options_.in_degrees,
                      .train_clusters = state_.manifest.num_clusters > 0 && machine_.size() > 1,
                      .label_words = state_.manifest.has_labels ? state_.manifest.label_words() : 0,
                      .replicated = replicated_};
    for (std::size_t i = 0; i < split_sizes_.size(); i += 2) {
      sizes.local_valid += split_sizes_[i];
      sizes.local_test += split_sizes_[i + 1];
    }
    return sizes;
  }

  /// Nodes of the parts whose lists are here.
  std::vector<Count> list_parts() const {
    const std::span<const NodeId> offsets = state_.manifest.book.offsets();
    const Count first = replicated_ ? 0 : parts_.first,
                end = replicated_ ? std::ssize(offsets) - 1 : parts_.end();
    std::vector<Count> nodes;
    for (Count part = first; part < end; ++part) {
      const auto p = static_cast<std::size_t>(part);
      nodes.push_back(offsets[p + 1] - offsets[p]);
    }
    return nodes;
  }

  FeatureShape feature_shape() const {
    FeatureShape shape = shape_in_memory(state_.manifest, options_.feature_format);
    const std::span<const NodeId> offsets = state_.manifest.book.offsets();
    for (Count part = parts_.first; part < parts_.end(); ++part) {
      const auto p = static_cast<std::size_t>(part);
      shape.part_rows.push_back(offsets[p + 1] - offsets[p]);
    }
    if (halo_nodes_ != nullptr && halo_nodes_->rows) {
      shape.part_rows.push_back(halo_nodes_->rows->size());
      shape.halo_occurrences = halo_nodes_->row_occurrences->span();
    }
    return shape;
  }

  void check_train() const {
    const std::span<const NodeId> train = state_.regions->train.span();
    const auto missing = std::ranges::find(train, NodeId{-1});
    if (missing == train.end()) return;
    throw InputError(fmt::format("no part of \"{}\" has training node {} of {}", state_.manifest.name,
                                 missing - train.begin(), train.size()),
                     "The parts do not belong together or are damaged: build them again.");
  }

  GraphState& state_;
  const comm::Machine& machine_;
  const LoadOptions& options_;
  ThreadPool pool_;
  Range parts_;
  int num_machines_ = 1;
  bool replicated_ = false;
  HaloBudget budget_;
  std::int64_t list_gpu_bytes_ = 0;        // per GPU, of the halo's lists
  std::shared_ptr<HaloNodes> halo_nodes_;  // null: none
  std::optional<ReadCounts> counts_;       // of batches of this machine's ranks, until all is planned
  std::optional<ServedReads> served_;      // of those of other machines
  graph::PartsOrigin origin_;
  std::optional<PartLoader> loader_;
  std::optional<ProgressBar> progress_;
  GraphPlacement placement_;
  std::vector<std::int64_t> split_sizes_;
};

}  // namespace

MachineGraph MachineGraph::load(const graph::PartsOrigin& parts, const comm::Communicator& world,
                                const comm::Topology& topology, const comm::Machine& machine,
                                const LoadOptions& options) {
  auto state = std::make_unique<State>();
  Loading loading(*state, machine, options, comm::resources_of(machine).cores);
  const std::string& host = topology.ranks[static_cast<std::size_t>(world.rank())].host;
  const std::int64_t gpu_bytes = tensor::gpu_budget(machine, options.gpu_budget_bytes);
  loading.open(parts, world, topology.num_machines());
  const std::int64_t all_gpus = gpu_bytes * tensor::gpus_of(machine).size();
  const MemoryShare before = memory_share(world, machine);
  loading.replicate_if_it_fits(parts, world, before, all_gpus);
  // An error of one machine reaches the others, which would otherwise wait for it when memory is measured.
  world.together([&] {
    refuse_if_too_large({"its parts", loading.least_host_bytes(all_gpus)}, before, host, state->manifest);
    loading.read_structure(world.rank() == 0, before.free - loading.least_host_bytes(all_gpus), gpu_bytes);
  });
  if (options.in_degrees && !options.degrees_of_loops) leave_loops_out(*state->regions, machine, world);
  if (options.train_edges_only) loading.keep_train_edges(world);
  loading.read_halo({&world, &topology, &machine});
  const MemoryShare share = memory_share(world, machine);
  world.together([&] {
    loading.plan(gpu_bytes, share.free);
    refuse_if_too_large({"its features", loading.host_feature_bytes()}, share, host, state->manifest);
    loading.fill_features(world.rank() == 0);
  });
  return MachineGraph(std::move(state));
}

}  // namespace strata::store
