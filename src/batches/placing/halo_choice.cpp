// SPDX-License-Identifier: Apache-2.0
#include "placing/halo_choice.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "placing/plan_placement.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/plan/heat.hpp"
#include "strata/util/log.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/text.hpp"

namespace strata::batches {
namespace {

constexpr Count kBlock = 4096;  // consecutive entries that are read
constexpr Count kNodesPerPiece = 1 << 16;

using Occurrences = tensor::HostArray<std::uint32_t>;

Count entries_of(const store::GraphView& graph) { return graph.indptr[graph.num_local] - graph.indptr[0]; }

/// Of longer lists than these in all, evenly spread blocks are read.
Count stride_of(const store::GraphView& graph) {
  constexpr Count kMostEntries = 200'000'000;
  return std::max<Count>(1, (entries_of(graph) + kMostEntries - 1) / kMostEntries);
}

Occurrences count_occurrences(const comm::Machine& machine, const store::GraphView& graph, ThreadPool& pool) {
  auto occurrences = Occurrences::create(machine, graph.num_nodes, "occurrences of other machines' nodes");
  const Count stride = stride_of(graph);
  const Range own = share_of({graph.indptr[0], entries_of(graph)}, machine.rank(), machine.size());
  graph.indices.visit([&](const auto* ids) {
    pool.parallel_for(own.count, kBlock * stride * 64, [&](Count begin, Count end) {
      for (Count first = own.first + begin; first < own.first + end; first += kBlock * stride) {
        const Count last = std::min(first + kBlock, own.first + end);
        for (Count e = first; e < last; ++e) {
          if (graph.owns(ids[e])) continue;
          std::atomic_ref(occurrences.data()[ids[e]]).fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  });
  machine.barrier();
  return occurrences;
}

/// A row or list of another machine's node.
struct Candidate {
  NodeId node;
  Count degree;
  std::int64_t bytes;  ///< that it takes
  std::uint32_t occurrences;
  int level;           ///< of the bytes on the link that a byte of it saves
  int heat;            ///< the power of two of how often it is read
  bool is_replicated;  ///< kept in any case, and not of the budget
};

/// One choice of what to keep.
class Chooser {
 public:
  /// Looks at all candidates. Collective over the machine.
  Chooser(const comm::Machine& machine, const store::OpenGraph& graph, const store::LoadOptions& options,
          const HaloWanted& wanted, const ReadCounts* counts, ThreadPool& pool)
      : machine_(machine),
        graph_(graph),
        nodes_(graph.nodes()),
        options_(options),
        wanted_(wanted),
        budget_(wanted.budget),
        counts_(counts),
        own_(share_of({0, nodes_.num_nodes}, machine_.rank(), machine_.size())),
        pool_(pool),
        occurrences_(count_occurrences(machine_, nodes_, pool_)),
        wire_(plan::wire_bytes(graph.sizes().id_bytes(), graph.features().row_bytes())),
        heat_(make_heat()) {
    add_to_levels();
  }

  plan::HaloAmounts amounts() const {
    return plan::fill_budget(
        {.mean_picks = mean_picks(), .row_groups = rows_.groups(), .list_groups = lists_.groups()}, budget_,
        wire_);
  }

  /// Collective over the machine.
  store::HaloNodes nodes(const plan::HaloAmounts& amounts) const {
    store::HaloNodes nodes;
    if (amounts.lists.bytes > 0 || wanted_.of_replicated.lists)
      share_lists(take(lists_, amounts.lists.bytes, true), nodes);
    if (amounts.rows.bytes > 0 || wanted_.of_replicated.rows)
      share_rows(take(rows_, amounts.rows.bytes, false), nodes);
    // What the ranks have written is there, and then a rank may free the memory of the occurrences.
    machine_.barrier();
    return nodes;
  }

 private:
  using Visit = std::function<void(const std::vector<Candidate>&)>;

  plan::HaloHeat make_heat() const {
    const std::vector<plan::HeatClass> classes = count_classes();
    return {classes, reads_of(classes)};
  }

  /// Sums over other machines' nodes, by how often they occur.
  std::vector<plan::HeatClass> count_classes() const {
    constexpr std::size_t kSums = sizeof(plan::HeatClass) / sizeof(std::int64_t);
    std::vector<plan::HeatClass> classes(plan::kHeatClasses);
    machine_.together([&] {
      for (NodeId node = own_.first; node < own_.end(); ++node) {
        if (nodes_.owns(node)) continue;
        classes[class_of(node)].add(counts_ ? counts_->rows(node) : 0, counts_ ? counts_->visits(node) : 0);
      }
    });
    std::vector<std::int64_t> sums(plan::kHeatClasses * kSums);
    std::memcpy(sums.data(), classes.data(), sums.size() * sizeof(std::int64_t));
    machine_.communicator().all_reduce(std::span(sums));
    std::memcpy(static_cast<void*>(classes.data()), sums.data(), sums.size() * sizeof(std::int64_t));
    return classes;
  }

  plan::HaloReads reads_of(std::span<const plan::HeatClass> classes) const {
    if (counts_ != nullptr && counts_->totals().batches > 0) {
      plan::HaloReads reads = counts_->halo_reads();
      reads.visits.resize(std::max(reads.visits.size(), options_.batch.fanouts.size()));
      return reads;
    }
    const auto entries = static_cast<double>(entries_of(nodes_));
    double remote = 0;
    for (std::size_t c = 0; c < classes.size(); ++c)
      remote += static_cast<double>(classes[c].nodes) * static_cast<double>(c);
    return plan::expect_reads(
        {.own_nodes = nodes_.num_local,
         .other_nodes = nodes_.num_nodes - nodes_.num_local,
         .mean_degree = entries / static_cast<double>(std::max<Count>(1, nodes_.num_local)),
         .remote_share =
             std::min(1.0, remote * static_cast<double>(stride_of(nodes_)) / std::max(1.0, entries))},
        options_.batch);
  }

  bool is_replicated(NodeId node, bool kept) const {
    return kept && wanted_.replicated.has(nodes_.original_ids[node]);
  }

  std::size_t class_of(NodeId node) const { return plan::heat_class(occurrences_.data()[node]); }

  Candidate row_of(NodeId node) const {
    const double reads = heat_.rows(class_of(node), counts_ ? counts_->rows(node) : 0);
    const std::int64_t bytes = plan::kept_row_bytes(budget_.row_bytes, machine_.size());
    return {.node = node,
            .degree = 0,
            .bytes = bytes,
            .occurrences = occurrences_.data()[node],
            .level = plan::DensityLevels::of(reads * wire_.row / static_cast<double>(bytes)),
            .heat = reads > 0 ? std::ilogb(reads) : std::numeric_limits<int>::min(),
            .is_replicated = is_replicated(node, wanted_.of_replicated.rows)};
  }

  double picks(Count degree) const { return heat_.picks(degree, options_.batch.fanouts); }

  Candidate list_of(NodeId node, Count degree) const {
    const plan::RegionSizes& sizes = graph_.sizes();
    const double visits = heat_.visits(class_of(node), counts_ ? counts_->visits(node) : 0);
    const std::int64_t bytes =
        degree * sizes.edge_bytes() + plan::kept_list_overhead(sizes.id_bytes(), machine_.size());
    return {
        .node = node,
        .degree = degree,
        .bytes = bytes,
        .occurrences = occurrences_.data()[node],
        .level = plan::DensityLevels::of(visits * wire_.of_list(picks(degree)) / static_cast<double>(bytes)),
        .heat = 0,
        .is_replicated = is_replicated(node, wanted_.of_replicated.lists)};
  }

  /// Calls visit(candidates of a piece of this rank's share) from all threads.
  void visit_lists(const Visit& visit) const {
    graph_.visit_indptr(own_, [&](NodeId first, std::span<const Count> indptr) {
      std::vector<Candidate> candidates;
      for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
        const NodeId node = first + static_cast<NodeId>(i);
        if (!nodes_.owns(node)) candidates.push_back(list_of(node, indptr[i + 1] - indptr[i]));
      }
      visit(candidates);
    });
  }

  void visit_rows(const Visit& visit) const {
    pool_.parallel_for(own_.count, kNodesPerPiece, [&](Count begin, Count end) {
      std::vector<Candidate> candidates;
      for (NodeId node = own_.first + begin; node < own_.first + end; ++node)
        if (!nodes_.owns(node)) candidates.push_back(row_of(node));
      visit(candidates);
    });
  }

  void walk(bool lists, const Visit& visit) const {
    machine_.together([&] { lists ? visit_lists(visit) : visit_rows(visit); });
  }

  void add_to_levels() {
    std::mutex mutex;
    const auto adding_to = [&](plan::DensityLevels& levels) {
      return [&](const std::vector<Candidate>& candidates) {
        const std::lock_guard lock(mutex);
        for (const Candidate& c : candidates) {
          if (c.is_replicated) continue;
          levels.add(c.level, c.bytes);
          degrees_ += c.degree;
        }
      };
    };
    if (budget_.rows) walk(false, adding_to(rows_));
    if (budget_.lists) walk(true, adding_to(lists_));
    machine_.communicator().all_reduce(rows_.sums());
    machine_.communicator().all_reduce(lists_.sums());
    machine_.communicator().all_reduce(std::span(&degrees_, 1));
  }

  /// Picks of a visit to a list of mean length.
  double mean_picks() const { return picks(degrees_ / std::max<Count>(1, lists_.total_count())); }

  /// This rank's share of the best candidates that take `bytes` and of replicated ones, ascending.
  std::vector<Candidate> take(const plan::DensityLevels& levels, std::int64_t bytes, bool lists) const {
    const plan::DensityLevels::Cut cut = levels.cut(bytes);
    std::vector<Candidate> chosen;
    std::mutex mutex;
    walk(lists, [&](const std::vector<Candidate>& candidates) {
      const std::lock_guard lock(mutex);
      std::ranges::copy_if(candidates, std::back_inserter(chosen), [&](const Candidate& c) {
        return c.is_replicated || (bytes > 0 && c.level >= cut.level - 1);
      });
    });
    std::ranges::sort(chosen, {}, &Candidate::node);
    std::int64_t left = cut.rest / machine_.size();
    std::erase_if(chosen, [&](const Candidate& c) {
      if (c.is_replicated || c.level >= cut.level) return false;
      if (c.bytes > left) return true;
      left -= c.bytes;
      return false;
    });
    return chosen;
  }

  /// Where a rank's candidates of each class go if all are ordered by class, and then by rank.
  struct Places {
    std::vector<Count> next;  ///< of this rank, by class
    Count total = 0;          ///< of all ranks and classes
  };
  Places places_of(std::span<const Count> own) const {
    const auto ranks = at(machine_.size()), rank = at(machine_.rank());
    std::vector<std::int64_t> counts(own.size() * ranks + 1);
    for (std::size_t c = 0; c < own.size(); ++c) counts[c * ranks + rank] = own[c];
    machine_.communicator().all_reduce(std::span(counts));
    std::exclusive_scan(counts.begin(), counts.end(), counts.begin(), Count{0});
    Places places{.next = {}, .total = counts.back()};
    for (std::size_t c = 0; c < own.size(); ++c) places.next.push_back(counts[c * ranks + rank]);
    return places;
  }

  /// Writes this rank's lists to what the ranks share; their shares of the nodes follow each other.
  void share_lists(const std::vector<Candidate>& own, store::HaloNodes& nodes) const {
    Count own_edges = 0;
    for (const Candidate& c : own) own_edges += c.degree;
    const Count own_lists = std::ssize(own);
    const Places lists = places_of(std::span(&own_lists, 1)), edges = places_of(std::span(&own_edges, 1));
    if (lists.total == 0) return;
    nodes.lists = tensor::HostArray<NodeId>::create(machine_, lists.total, "nodes of the halo's lists");
    nodes.indptr = tensor::HostArray<Count>::create(machine_, lists.total + 1, "indptr of the halo");
    Count place = lists.next.front(), edge = edges.next.front();
    for (const Candidate& c : own) {
      nodes.lists->data()[place] = c.node;
      nodes.indptr->data()[place++] = edge;
      edge += c.degree;
    }
    if (machine_.rank() == 0) nodes.indptr->data()[lists.total] = edges.total;
  }

  void share_rows(const std::vector<Candidate>& own, store::HaloNodes& nodes) const {
    // Classes from hot to cold. Doubles have exponents of 1023 to -1074; rows that are never read come last.
    constexpr int kHottest = 1023, kColdest = -1075;
    const auto class_of_heat = [=](const Candidate& c) { return at(kHottest - std::max(c.heat, kColdest)); };
    std::vector<Count> counts(kHottest - kColdest + 1);
    for (const Candidate& c : own) ++counts[class_of_heat(c)];
    Places rows = places_of(counts);
    if (rows.total == 0) return;
    nodes.rows = tensor::HostArray<NodeId>::create(machine_, rows.total, "nodes of the halo's rows");
    nodes.row_occurrences =
        tensor::HostArray<std::uint32_t>::create(machine_, rows.total, "occurrences of the halo's rows");
    for (const Candidate& c : own) {
      const Count place = rows.next[class_of_heat(c)]++;
      nodes.rows->data()[place] = c.node;
      nodes.row_occurrences->data()[place] = c.occurrences;
    }
  }

  const comm::Machine& machine_;
  const store::OpenGraph& graph_;
  const store::GraphView nodes_;
  const store::LoadOptions& options_;
  const HaloWanted& wanted_;
  const plan::HaloBudget& budget_;
  const ReadCounts* counts_;
  const Range own_;  // of all nodes, this rank's share
  ThreadPool& pool_;
  const Occurrences occurrences_;
  const plan::WireBytes wire_;
  const plan::HaloHeat heat_;
  plan::DensityLevels rows_, lists_;
  std::int64_t degrees_ = 0;  // of all lists together
};

void log_choice(const plan::HaloAmounts& amounts) {
  spdlog::info("{} feature rows and {} neighbor lists of other machines' nodes are kept, in {}",
               format_count(amounts.rows.count), format_count(amounts.lists.count),
               format_bytes(amounts.rows.bytes + amounts.lists.bytes));
}

}  // namespace

ReplicatedNodes::ReplicatedNodes(const graph::Manifest& manifest) : all_(plan::CopiedNodes::of(manifest)) {
  for (const std::size_t type : manifest.replicated_types) {
    ids_.push_back(graph::nodes_of_type(manifest.types, type, manifest.book.num_nodes()));
    types_.push_back(manifest.types.nodes[type]);
  }
}

bool ReplicatedNodes::has(NodeId original_id) const {
  return std::ranges::any_of(
      ids_, [&](const Range& ids) { return original_id >= ids.first && original_id < ids.end(); });
}

void ReplicatedNodes::log() const {
  spdlog::info("every machine keeps copies of the {} of {}: {}", counted(all_.nodes, "node"),
               counted(std::ssize(types_), "type"), fmt::join(types_, ", "));
}

std::int64_t gpu_bytes_of_lists(const store::HaloNodes& nodes, const plan::RegionSizes& sizes) {
  if (!nodes.lists) return 0;
  const Count lists = nodes.lists->size(), edges = nodes.indptr->data()[lists];
  const std::int64_t sublists = sizes.num_relations > 1 ? edges * plan::kSublistBytes : 0;
  return lists * plan::kept_list_overhead(sizes.id_bytes(), 1) + edges * sizes.edge_bytes() + sublists;
}

store::HaloNodes choose_halo(const comm::Ranks& ranks, const store::OpenGraph& graph,
                             const store::LoadOptions& options, const HaloWanted& wanted,
                             const ReadCounts* counts) {
  ThreadPool pool(comm::resources_of(*ranks.machine).cores);
  std::optional<Chooser> chooser;
  ranks.world->together([&] { chooser.emplace(*ranks.machine, graph, options, wanted, counts, pool); });
  const plan::HaloAmounts amounts = chooser->amounts();
  if (ranks.world->rank() == 0 && wanted.budget.bytes > 0) log_choice(amounts);
  if (ranks.world->rank() == 0 && wanted.replicated.any()) wanted.replicated.log();
  store::HaloNodes nodes;
  ranks.world->together([&] { nodes = chooser->nodes(amounts); });
  return nodes;
}

}  // namespace strata::batches
