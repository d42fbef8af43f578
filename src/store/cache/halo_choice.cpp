// SPDX-License-Identifier: Apache-2.0
#include "cache/halo_choice.hpp"

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

#include "cache/density_levels.hpp"
#include "strata/util/shares.hpp"

namespace strata::store {
namespace {

constexpr Count kBlock = 4096;  // consecutive entries that are read
constexpr Count kNodesPerPiece = 1 << 16;
constexpr Count kIndexBytes = 16;  // per node of a NodeIndex

using Occurrences = HostArray<std::uint32_t>;

Occurrences count_occurrences(const HaloTask& task) {
  const comm::Machine& machine = *task.ranks.machine;
  const GraphView graph = task.regions.view();
  auto occurrences = Occurrences::create(machine, graph.num_nodes, "occurrences of other machines' nodes");
  const Range all{graph.indptr[0], graph.indptr[graph.num_local] - graph.indptr[0]};
  const Count stride = std::max<Count>(1, (all.count + task.max_entries - 1) / task.max_entries);
  const Range own = share_of(all, machine.rank(), machine.size());
  graph.indices.visit([&](const auto* ids) {
    task.pool.parallel_for(own.count, kBlock * stride * 64, [&](Count begin, Count end) {
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

Range own_nodes(const HaloTask& task) {
  return share_of({0, task.regions.sizes.num_nodes}, task.ranks.machine->rank(), task.ranks.machine->size());
}

std::int64_t id_bytes_of(const RegionSizes& sizes) { return sizes.wide_nodes() ? 8 : 4; }

std::int64_t list_overhead(const RegionSizes& sizes, int num_ranks) {
  return static_cast<std::int64_t>(sizeof(Count)) + id_bytes_of(sizes) + kIndexBytes * num_ranks;
}

std::int64_t row_bytes_of(const HaloTask& task) {
  return task.budget.row_bytes + kIndexBytes * task.ranks.machine->size();
}

/// Where costs are not known, a byte on the wire takes one second.
ExchangeCosts costs_of(const HaloTask& task) {
  const auto id = static_cast<double>(id_bytes_of(task.regions.sizes));
  return task.options.exchange_costs.value_or(
      ExchangeCosts{.row_seconds = sizeof(NodeId) + static_cast<double>(task.budget.row_bytes),
                    .list_seconds = id + sizeof(std::int32_t),
                    .pick_seconds = id});
}

/// Sums over other machines' nodes, by how often they occur.
std::vector<HeatClass> count_classes(const HaloTask& task, const Occurrences& occurrences) {
  constexpr std::size_t kSums = sizeof(HeatClass) / sizeof(std::int64_t);
  std::vector<HeatClass> classes(kHeatClasses);
  const GraphView graph = task.regions.view();
  const Range own = own_nodes(task);
  task.ranks.machine->together([&] {
    for (NodeId node = own.first; node < own.end(); ++node) {
      if (graph.owns(node)) continue;
      classes[heat_class(occurrences.data()[node])].add(task.counts ? task.counts->rows(node) : 0,
                                                        task.counts ? task.counts->visits(node) : 0);
    }
  });
  std::vector<std::int64_t> sums(kHeatClasses * kSums);
  std::memcpy(sums.data(), classes.data(), sums.size() * sizeof(std::int64_t));
  task.ranks.machine->communicator().all_reduce(std::span(sums));
  std::memcpy(static_cast<void*>(classes.data()), sums.data(), sums.size() * sizeof(std::int64_t));
  return classes;
}

HaloReads reads_of(const HaloTask& task, std::span<const HeatClass> classes) {
  if (task.counts != nullptr && task.counts->totals().batches > 0) {
    HaloReads reads = task.counts->halo_reads();
    reads.visits.resize(std::max(reads.visits.size(), task.options.batch.fanouts.size()));
    return reads;
  }
  const GraphView graph = task.regions.view();
  const auto entries = static_cast<double>(graph.indptr[graph.num_local] - graph.indptr[0]);
  double remote = 0;
  for (std::size_t c = 0; c < classes.size(); ++c)
    remote += static_cast<double>(classes[c].nodes) * static_cast<double>(c);
  const Count stride =
      std::max<Count>(1, (static_cast<Count>(entries) + task.max_entries - 1) / task.max_entries);
  return expect_reads(
      {.own_nodes = graph.num_local,
       .other_nodes = graph.num_nodes - graph.num_local,
       .mean_degree = entries / static_cast<double>(std::max<Count>(1, graph.num_local)),
       .remote_share = std::min(1.0, remote * static_cast<double>(stride) / std::max(1.0, entries))},
      task.options.batch);
}

/// A row or list of another machine's node.
struct Candidate {
  NodeId node;
  Count degree;
  std::int64_t bytes;  ///< that it takes
  std::uint32_t occurrences;
  int level;  ///< of the seconds per byte that it saves
  int heat;   ///< the power of two of how often it is read
};

/// One choice of what to keep.
class Chooser {
 public:
  /// Looks at all candidates. Collective over the machine.
  explicit Chooser(const HaloTask& task)
      : task_(task),
        machine_(*task.ranks.machine),
        occurrences_(count_occurrences(task)),
        costs_(costs_of(task)),
        heat_(make_heat()) {
    add_to_levels();
  }

  /// Collective over the world with LoadOptions::exchange_costs.
  HaloPlan plan() const {
    if (!task_.options.exchange_costs) return {.amounts = fill_budget(offer(), task_.budget, costs_)};
    return plan_what_pays(offer(), task_.budget, costs_, [this](std::span<double> values) {
      if (machine_.rank() > 0) std::ranges::fill(values, 0.0);
      task_.ranks.world->all_reduce(values);
      // To the last bit.
      task_.ranks.world->broadcast(values.data(), static_cast<Count>(values.size_bytes()), 0);
    });
  }

  /// Collective over the machine.
  HaloNodes nodes(const HaloAmounts& amounts) const {
    HaloNodes nodes;
    if (amounts.lists.bytes > 0) share_lists(take(lists_, amounts.lists.bytes, true), nodes);
    if (amounts.rows.bytes > 0) share_rows(take(rows_, amounts.rows.bytes, false), nodes);
    // What the ranks have written is there, and then a rank may free the memory of the occurrences.
    machine_.barrier();
    return nodes;
  }

 private:
  using Visit = std::function<void(const std::vector<Candidate>&)>;

  HaloHeat make_heat() const {
    const std::vector<HeatClass> classes = count_classes(task_, occurrences_);
    return {classes, reads_of(task_, classes)};
  }

  std::size_t class_of(NodeId node) const { return heat_class(occurrences_.data()[node]); }

  Candidate row_of(NodeId node) const {
    const double reads = heat_.rows(class_of(node), task_.counts ? task_.counts->rows(node) : 0);
    const std::int64_t bytes = row_bytes_of(task_);
    return {.node = node,
            .degree = 0,
            .bytes = bytes,
            .occurrences = occurrences_.data()[node],
            .level = DensityLevels::of(reads * costs_.row_seconds / static_cast<double>(bytes)),
            .heat = reads > 0 ? std::ilogb(reads) : std::numeric_limits<int>::min()};
  }

  double list_seconds(Count degree) const {
    const Count read = costs_.whole_fanouts ? std::numeric_limits<int>::max() : degree;
    return costs_.list_seconds + costs_.pick_seconds * heat_.picks(read, task_.options.batch.fanouts);
  }

  Candidate list_of(NodeId node, Count degree) const {
    const RegionSizes& sizes = task_.regions.sizes;
    const double visits = heat_.visits(class_of(node), task_.counts ? task_.counts->visits(node) : 0);
    const std::int64_t bytes = degree * edge_bytes_of(sizes) + list_overhead(sizes, machine_.size());
    return {.node = node,
            .degree = degree,
            .bytes = bytes,
            .occurrences = occurrences_.data()[node],
            .level = DensityLevels::of(visits * list_seconds(degree) / static_cast<double>(bytes)),
            .heat = 0};
  }

  /// Calls visit(candidates of a piece of this rank's share) from all threads.
  void visit_lists(const Visit& visit) const {
    const GraphView graph = task_.regions.view();
    task_.loader.visit_indptr(own_nodes(task_), [&](NodeId first, std::span<const Count> indptr) {
      std::vector<Candidate> candidates;
      for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
        const NodeId node = first + static_cast<NodeId>(i);
        if (!graph.owns(node)) candidates.push_back(list_of(node, indptr[i + 1] - indptr[i]));
      }
      visit(candidates);
    });
  }

  void visit_rows(const Visit& visit) const {
    const Range own = own_nodes(task_);
    const GraphView graph = task_.regions.view();
    task_.pool.parallel_for(own.count, kNodesPerPiece, [&](Count begin, Count end) {
      std::vector<Candidate> candidates;
      for (NodeId node = own.first + begin; node < own.first + end; ++node)
        if (!graph.owns(node)) candidates.push_back(row_of(node));
      visit(candidates);
    });
  }

  void walk(bool lists, const Visit& visit) const {
    machine_.together([&] { lists ? visit_lists(visit) : visit_rows(visit); });
  }

  void add_to_levels() {
    std::mutex mutex;
    const auto adding_to = [&](DensityLevels& levels) {
      return [&](const std::vector<Candidate>& candidates) {
        const std::lock_guard lock(mutex);
        for (const Candidate& c : candidates) {
          levels.add(c.level, c.bytes);
          degrees_ += c.degree;
        }
      };
    };
    if (task_.budget.rows) walk(false, adding_to(rows_));
    if (task_.budget.lists) walk(true, adding_to(lists_));
    rows_.sum(machine_);
    lists_.sum(machine_);
    machine_.communicator().all_reduce(std::span(&degrees_, 1));
  }

  /// Of a visit to a list of mean length.
  double mean_picks() const {
    const Count lists = std::max<Count>(1, lists_.total_count());
    return costs_.pick_seconds > 0
               ? (list_seconds(degrees_ / lists) - costs_.list_seconds) / costs_.pick_seconds
               : 0;
  }

  HaloOffer offer() const {
    return {.rows = heat_.reads().rows,
            .visits = heat_.reads().all_visits(),
            .mean_picks = mean_picks(),
            .row_groups = rows_.groups(placement::Keepable::other_rows),
            .list_groups = lists_.groups(placement::Keepable::other_lists),
            .own_groups = task_.own};
  }

  /// This rank's share of the best candidates that take `bytes`, ascending.
  std::vector<Candidate> take(const DensityLevels& levels, std::int64_t bytes, bool lists) const {
    const DensityLevels::Cut cut = levels.cut(bytes);
    std::vector<Candidate> chosen;
    std::mutex mutex;
    walk(lists, [&](const std::vector<Candidate>& candidates) {
      const std::lock_guard lock(mutex);
      std::ranges::copy_if(candidates, std::back_inserter(chosen),
                           [&](const Candidate& c) { return c.level >= cut.level - 1; });
    });
    std::ranges::sort(chosen, {}, &Candidate::node);
    std::int64_t left = cut.rest / machine_.size();
    std::erase_if(chosen, [&](const Candidate& c) {
      if (c.level >= cut.level) return false;
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
    const auto ranks = static_cast<std::size_t>(machine_.size()),
               rank = static_cast<std::size_t>(machine_.rank());
    std::vector<std::int64_t> counts(own.size() * ranks + 1);
    for (std::size_t c = 0; c < own.size(); ++c) counts[c * ranks + rank] = own[c];
    machine_.communicator().all_reduce(std::span(counts));
    std::exclusive_scan(counts.begin(), counts.end(), counts.begin(), Count{0});
    Places places{.next = {}, .total = counts.back()};
    for (std::size_t c = 0; c < own.size(); ++c) places.next.push_back(counts[c * ranks + rank]);
    return places;
  }

  /// Writes this rank's lists to what the ranks share; their shares of the nodes follow each other.
  void share_lists(const std::vector<Candidate>& own, HaloNodes& nodes) const {
    Count own_edges = 0;
    for (const Candidate& c : own) own_edges += c.degree;
    const Count own_lists = std::ssize(own);
    const Places lists = places_of(std::span(&own_lists, 1)), edges = places_of(std::span(&own_edges, 1));
    if (lists.total == 0) return;
    nodes.lists = HostArray<NodeId>::create(machine_, lists.total, "nodes of the halo's lists");
    nodes.indptr = HostArray<Count>::create(machine_, lists.total + 1, "indptr of the halo");
    Count place = lists.next.front(), edge = edges.next.front();
    for (const Candidate& c : own) {
      nodes.lists->data()[place] = c.node;
      nodes.indptr->data()[place++] = edge;
      edge += c.degree;
    }
    if (machine_.rank() == 0) nodes.indptr->data()[lists.total] = edges.total;
  }

  void share_rows(const std::vector<Candidate>& own, HaloNodes& nodes) const {
    // Classes from hot to cold. Doubles have exponents of 1023 to -1074; rows that are never read come last.
    constexpr int kHottest = 1023, kColdest = -1075;
    const auto class_of_heat = [=](const Candidate& c) {
      return static_cast<std::size_t>(kHottest - std::max(c.heat, kColdest));
    };
    std::vector<Count> counts(kHottest - kColdest + 1);
    for (const Candidate& c : own) ++counts[class_of_heat(c)];
    Places rows = places_of(counts);
    if (rows.total == 0) return;
    nodes.rows = HostArray<NodeId>::create(machine_, rows.total, "nodes of the halo's rows");
    nodes.row_occurrences =
        HostArray<std::uint32_t>::create(machine_, rows.total, "occurrences of the halo's rows");
    for (const Candidate& c : own) {
      const Count place = rows.next[class_of_heat(c)]++;
      nodes.rows->data()[place] = c.node;
      nodes.row_occurrences->data()[place] = c.occurrences;
    }
  }

  const HaloTask& task_;
  const comm::Machine& machine_;
  const Occurrences occurrences_;
  const ExchangeCosts costs_;
  const HaloHeat heat_;
  DensityLevels rows_, lists_;
  std::int64_t degrees_ = 0;  // of all lists together
};

}  // namespace

std::int64_t edge_bytes_of(const RegionSizes& sizes) {
  return id_bytes_of(sizes) + (sizes.edge_ids ? 8 : 0) + (sizes.weights ? 4 : 0);
}

Count most_lists(const RegionSizes& sizes, std::int64_t list_bytes, int num_ranks) {
  return std::min<Count>(list_bytes / list_overhead(sizes, num_ranks), sizes.num_nodes - sizes.num_local);
}

std::int64_t gpu_bytes_of_lists(const HaloNodes& nodes, const RegionSizes& sizes) {
  if (!nodes.lists) return 0;
  const Count lists = nodes.lists->size(), edges = nodes.indptr->data()[lists];
  return lists * list_overhead(sizes, 1) + edges * edge_bytes_of(sizes);
}

bool holds_all(const HaloTask& task) {
  const RegionSizes& sizes = task.regions.sizes;
  const Count others = sizes.num_nodes - sizes.num_local,
              edges = sizes.replicated ? 0 : task.num_edges - sizes.local_edges;
  std::int64_t bytes = task.budget.rows ? others * row_bytes_of(task) : 0;
  if (task.budget.lists)
    bytes += others * list_overhead(sizes, task.ranks.machine->size()) + edges * edge_bytes_of(sizes);
  return bytes <= task.budget.bytes;
}

HaloChoice choose_halo(const HaloTask& task) {
  std::optional<Chooser> chooser;
  task.ranks.world->together([&] { chooser.emplace(task); });
  HaloPlan plan = chooser->plan();
  HaloChoice choice{.nodes = {}, .decisions = std::move(plan.decisions)};
  task.ranks.world->together([&] { choice.nodes = chooser->nodes(plan.amounts); });
  return choice;
}

}  // namespace strata::store
