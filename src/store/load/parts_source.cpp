// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cache/halo_regions.hpp"
#include "load/graph_source.hpp"
#include "load/held_edges.hpp"
#include "load/late_rows.hpp"
#include "load/loop_degrees.hpp"
#include "load/part_loader.hpp"
#include "load/sublist_share.hpp"
#include "load/train_edges.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::store {

/// The parts that a machine hosts. Each step is collective and fails on all ranks alike: those that plan over
/// all ranks, the others over the machine.
class PartsSource : public GraphSource {
 public:
  PartsSource(const graph::PartsOrigin& origin, const comm::Ranks& ranks, const LoadOptions& options,
              bool all_lists)
      : GraphSource(*ranks.machine, options),
        world_(*ranks.world),
        num_machines_(ranks.topology->num_machines()),
        pool_(comm::resources_of(machine_).cores),
        origin_(origin) {
    world_.together([&] {
      state_->manifest = graph::read_manifest(origin);
      check_options(state_->manifest, options_);
      const graph::PartitionBook& book = state_->manifest.book;
      const std::vector<int> parts = graph::parts_of_machines(book.num_parts(), num_machines_);
      for (const int part : parts) state_->machine_offsets.push_back(book.offsets()[at(part)]);
      const std::size_t index = at(machine_.index());
      parts_ = {parts[index], parts[index + 1] - parts[index]};
      open(all_lists);
      split_sizes_ = loader_->read_split_sizes();
    });
    count_sublists();
    if (world_.rank() == 0) warn_if_unverified();
    machine_.communicator().all_reduce(std::span(split_sizes_));
    features_ = plan::shape_in_memory(state_->manifest, options_.feature_format);
    features_.part_rows = nodes_of(parts_);
  }

  void take_all_lists() {
    world_.together([&] {
      open(true);
      loader_->read_split_sizes();
    });
    count_sublists();
  }

  plan::RegionSizes sizes() const {
    plan::RegionSizes sizes{.num_nodes = state_->manifest.book.num_nodes(),
                            .first_node = loader_->first_node(),
                            .num_local = loader_->num_local(),
                            .local_edges = loader_->local_edges(),
                            .sublists = sublist_sizes_.sublists,
                            .most_sublists = sublist_sizes_.most_sublists,
                            .num_relations = static_cast<int>(state_->manifest.types.edges.size()),
                            .num_train = state_->manifest.num_train,
                            .num_valid_edges = state_->manifest.num_valid_edges,
                            .num_test_edges = state_->manifest.num_test_edges,
                            .edge_ids = options_.edge_ids,
                            .weights = options_.edge_weights,
                            .in_degrees = options_.in_degrees,
                            .train_clusters = state_->manifest.num_clusters > 0 && machine_.size() > 1,
                            .label_words = state_->manifest.has_labels ? state_->manifest.label_words() : 0,
                            .replicated = replicated_};
    for (std::size_t i = 0; i < split_sizes_.size(); i += 2) {
      sizes.local_valid += split_sizes_[i];
      sizes.local_test += split_sizes_[i + 1];
    }
    return sizes;
  }

  void read(Count aliases) {
    world_.together([&] { read_structure(aliases); });
    if (options_.in_degrees && !options_.degrees_of_loops)
      leave_loops_out(*state_->regions, machine_, world_);
    if (options_.edge_split) {
      hold_out_edges(*state_->regions, *options_.edge_split, state_->manifest, machine_, world_);
      count_degrees(*state_->regions, machine_, world_, options_.degrees_of_loops);
    }
    if (!options_.train_edges_only) return;
    const graph::GraphTypes& types = state_->manifest.types;
    world_.together([&] { state_->whole.emplace(keep_train_edges(*state_->regions, types, machine_)); });
    const auto count = types.several() ? count_degrees : count_train_degrees;
    count(*state_->regions, machine_, world_, options_.degrees_of_loops);
  }

  void visit_indptr(Range nodes, const std::function<void(NodeId, std::span<const Count>)>& visit) override {
    loader_->visit_indptr(nodes, visit);
  }

  void keep(HaloNodes nodes) override {
    halo_nodes_ = std::make_shared<HaloNodes>(std::move(nodes));
    if (halo_nodes_->lists)
      state_->halo.emplace(
          read_halo(machine_, *state_->regions, {*loader_, state_->manifest, pool_}, *halo_nodes_));
    halo_nodes_->lists.reset();
    if (!halo_nodes_->rows) return;
    const std::span<const NodeId> rows = halo_nodes_->rows->span();
    state_->halo_rows = NodeIndex(rows, state_->manifest.book.num_nodes());
    state_->halo_rows_are_rounded = rounds_halo_rows();
    features_.part_rows.push_back(std::ssize(rows));
    features_.halo_occurrences = halo_nodes_->row_occurrences->span();
    machine_.together([&] { loader_->add_feature_rows(rows); });
  }

  void fill() override {
    const tensor::Placement& placement = state_->features->placement();
    if (shows_progress() && progress_style() == ProgressStyle::lines)
      spdlog::info("loading features, {} of them in host memory", format_bytes(host_bytes()));
    if (options_.late_features) rows_ = hot_and_late(placement, machine_.size());
    const FeatureSource source = loader_->features();
    fill_features(machine_, *state_->features, {source, row_form(), *progress_, pool_, rows_.hot});
  }

  void finish() override {
    progress_.reset();
    if (!rows_.late.empty()) read_late();
  }

 private:
  void warn_if_unverified() const {
    const graph::Manifest& manifest = state_->manifest;
    if (!options_.verify_parts || !manifest.part_records || manifest.has_block_hashes()) return;
    spdlog::warn(
        "{0} has no hashes of blocks (an older strata-partition built it): damage to its files goes unseen. "
        "Run "
        "`strata-partition verify {0}`, or build it again",
        graph::name_of(origin_));
  }

  bool shows_progress() const { return world_.rank() == 0; }

  void open(bool all_lists) {
    replicated_ = all_lists && num_machines_ > 1;
    loader_.emplace(source_of_parts(replicated_, verify()),
                    PartLoader::Rank{machine_.rank(), machine_.size()}, pool_);
    if (state_->manifest.types.edges.size() > 1) find_sublists();
    list_parts_ = nodes_of(replicated_ ? Range{0, state_->manifest.book.num_parts()} : parts_);
  }

  void find_sublists() {
    if (loader_->num_lists() > std::numeric_limits<std::int32_t>::max())
      throw InputError(fmt::format("the {} nodes of a machine are too many for a graph of several relations "
                                   "(2^31 - 1)",
                                   format_count(loader_->num_lists())),
                       "Use more machines.");
    sublists_.emplace(
        graph::RelationRanges(state_->manifest.types), loader_->own_lists(),
        [&](Range lists, graph::SublistScan& scan) { loader_->scan_lists(lists, scan); }, pool_);
  }

  void count_sublists() {
    if (!sublists_) return;
    const SublistShare::Sizes sizes = sublists_->count(machine_);
    sublist_sizes_.sublists = sizes.sublists;
    sublist_sizes_.most_sublists = sizes.most_of_a_list;
  }

  void place_sublists() {
    if (!sublists_) return;
    const GraphRegions& regions = *state_->regions;
    sublists_->move_to({.first = regions.sublist_first.data(),
                        .begins = regions.sublist_begins.data(),
                        .nodes = regions.sublist_nodes.data(),
                        .relations = regions.sublist_relations.data()},
                       regions.indptr.data());
    if (machine_.rank() > 0) return;
    regions.sublist_first.data()[regions.sizes.num_lists()] = regions.sizes.sublists;
    regions.sublist_begins.data()[regions.sizes.sublists] = regions.sizes.local_edges;
  }

  /// Nodes of each of these parts.
  std::vector<Count> nodes_of(Range parts) const {
    const std::span<const NodeId> offsets = state_->manifest.book.offsets();
    std::vector<Count> nodes;
    for (Count part = parts.first; part < parts.end(); ++part)
      nodes.push_back(offsets[at(part + 1)] - offsets[at(part)]);
    return nodes;
  }

  void read_structure(Count aliases) {
    plan::RegionSizes sizes = this->sizes();
    sizes.aliases = aliases;
    state_->regions.emplace(GraphRegions::create(machine_, sizes));
    if (shows_progress() && progress_style() == ProgressStyle::lines)
      spdlog::info("loading the structure of the parts, {}", format_bytes(sizes.bytes()));
    progress_.emplace("load graph", loader_->share_bytes(options_), "B", shows_progress());
    machine_.together([&] {
      if (machine_.rank() == 0) {
        std::ranges::fill(state_->regions->train.span(), NodeId{-1});
        std::ranges::fill(state_->regions->train_clusters.span(), -1);
      }
      loader_->read_structure(*state_->regions, *progress_);
      place_sublists();
    });
    machine_.together([&] { loader_->write_splits(*state_->regions, split_sizes_); });
    machine_.together([&] {
      if (machine_.rank() == 0)
        write_held_edges(graph::read_edge_splits(origin_, state_->manifest, verify()), *state_->regions);
    });
    machine_.together([&] { check_train(); });
  }

  std::int64_t host_bytes() const {
    const tensor::Segment rows = state_->features->placement().total();
    return rows[tensor::Stratum::host] * static_cast<std::int64_t>(state_->features->spec().row_pitch());
  }

  graph::Verify verify() const { return options_.verify_parts ? graph::Verify::on : graph::Verify::off; }

  PartLoader::Source source_of_parts(bool all_lists, graph::Verify verify) const {
    return {.origin = origin_,
            .manifest = state_->manifest,
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
    const bool compressed =
        state_->manifest.feature_code || options_.feature_format != plan::FeatureFormat::stored;
    return options_.halo_rows_in_bf16 && !compressed;
  }

  RowForm row_form() const {
    RowForm form{type_of_rows(state_->manifest), options_.row_normalize};
    if (rounds_halo_rows()) form.bf16_from = loader_->num_local();
    return form;
  }

  void read_late() {
    std::shared_ptr<LateSource> source;
    machine_.together([&] {
      source = std::make_shared<LateSource>(source_of_parts(false, verify()),
                                            source_of_parts(false, graph::Verify::off),
                                            PartLoader::Rank{machine_.rank(), machine_.size()}, halo_nodes_);
    });
    if (shows_progress()) {
      spdlog::info("{} of {} feature rows are in place; the others are read while training begins",
                   format_count(state_->features->spec().rows - rows_.late_rows()),
                   format_count(state_->features->spec().rows));
    }
    state_->arrival = store::read_late(machine_, *state_->features, rows_.late,
                                       {.checked = source->checked.features(),
                                        .single = source->single.features(),
                                        .form = row_form(),
                                        .threads = std::max(1, pool_.num_threads() / 2),
                                        .keep_alive = source});
  }

  void check_train() const {
    const std::span<const NodeId> train = state_->regions->train.span();
    const auto missing = std::ranges::find(train, NodeId{-1});
    if (missing == train.end()) return;
    throw InputError(fmt::format("no part of \"{}\" has training node {} of {}", state_->manifest.name,
                                 missing - train.begin(), train.size()),
                     "The parts do not belong together or are damaged: build them again.");
  }

  const comm::Communicator& world_;
  int num_machines_;
  ThreadPool pool_;
  graph::PartsOrigin origin_;
  Range parts_;
  bool replicated_ = false;
  std::optional<PartLoader> loader_;
  std::optional<SublistShare> sublists_;  // of several relations
  plan::RegionSizes sublist_sizes_;       // only their numbers
  std::optional<ProgressBar> progress_;
  std::vector<std::int64_t> split_sizes_;
  std::shared_ptr<HaloNodes> halo_nodes_;  // null: none
  HotAndLate rows_;
};

OpenParts::OpenParts(const graph::PartsOrigin& origin, const comm::Ranks& ranks, const LoadOptions& options,
                     bool all_lists)
    : source_(std::make_unique<PartsSource>(origin, ranks, options, all_lists)) {}
OpenParts::OpenParts(OpenParts&&) noexcept = default;
OpenParts::~OpenParts() = default;

const graph::Manifest& OpenParts::manifest() const { return source_->state().manifest; }
plan::RegionSizes OpenParts::sizes() const { return source_->sizes(); }
plan::FeatureShape OpenParts::features() const { return source_->features(); }
void OpenParts::take_all_lists() { source_->take_all_lists(); }

OpenGraph OpenParts::read(Count aliases) && {
  source_->read(aliases);
  return OpenGraph(std::move(source_));
}

}  // namespace strata::store
