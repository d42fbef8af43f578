// SPDX-License-Identifier: Apache-2.0
#include "heat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "strata/comm/resources.hpp"
#include "strata/util/error.hpp"
#include "strata/util/shares.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::store {
namespace {

constexpr Count kBlock = 4096;  // entries read one after the other
constexpr Count kRowsPerPiece = 1 << 20;

using Sums = std::vector<std::int64_t>;

/// Sums of pieces that threads make in private and add here.
class SharedSums {
 public:
  explicit SharedSums(std::size_t size) : sums_(size) {}
  template <typename Work>
  void add(Work&& work) {
    Sums own(sums_.size());
    work(own);
    const std::lock_guard lock(mutex_);
    std::ranges::transform(sums_, own, sums_.begin(), std::plus<>());
  }
  Sums& get() { return sums_; }

 private:
  std::mutex mutex_;
  Sums sums_;
};

/// Adds the occurrences of this machine's nodes in every `stride`-th block of `entries`.
template <typename Id>
void count_occurrences(const Id* ids, Range entries, Count stride, const HeatSource& source,
                       const BucketMap& map, Sums& sums) {
  const NodeId first_node = source.graph.first_node;
  const auto num_local = static_cast<std::uint64_t>(source.graph.num_local);
  for (Count first = entries.first; first < entries.end(); first += kBlock * stride) {
    const Count end = std::min(first + kBlock, entries.end());
    for (Count i = first; i < end; ++i) {
      const NodeId local = static_cast<NodeId>(ids[i]) - first_node;
      if (static_cast<std::uint64_t>(local) < num_local) ++sums[map.bucket_of(local)];
    }
  }
}

/// A row of sums a bucket: what each fanout samples.
void count_lists(Range rows, const HeatSource& source, const BucketMap& map, Sums& sums) {
  const std::size_t num_fanouts = source.fanouts.size();
  for (Count row = rows.first; row < rows.end(); ++row) {
    const Count degree = source.graph.indptr[row + 1] - source.graph.indptr[row];
    std::int64_t* group = sums.data() + map.bucket_of(row) * num_fanouts;
    for (std::size_t f = 0; f < num_fanouts; ++f) {
      const int fanout = source.fanouts[f];
      group[f] += fanout < 0 ? degree : std::min<Count>(degree, fanout);
    }
  }
}

/// Pieces of a few thousand blocks, so that their private sums cost little and the threads stay busy.
Count entries_per_piece(Count stride, std::size_t num_buckets) {
  const Count least = Count{1} << 22;
  return std::max(least, static_cast<Count>(num_buckets) * 16) / kBlock * kBlock * stride;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

placement::HeatCurve curve_of(std::span<const placement::HeatCurve::Point> steps) {
  placement::HeatCurve curve;
  placement::HeatCurve::Point sum;
  for (const placement::HeatCurve::Point& step : steps) {
    sum = {sum.rows + step.rows, sum.accesses + step.accesses};
    curve.points.push_back(sum);
  }
  return curve;
}

}  // namespace

NodeHeat count_heat(const comm::Machine& machine, const HeatSource& source) {
  const BucketMap map(source.part_rows);
  const Count num_entries = source.graph.indices.size;
  const Count stride = std::max<Count>(1, (num_entries + source.max_entries - 1) / source.max_entries);
  const Range entries = share_of({0, num_entries}, machine.rank(), machine.size());
  const Range rows = share_of({0, source.graph.num_local}, machine.rank(), machine.size());
  ThreadPool pool(comm::resources_of(machine).cores);

  const std::size_t num_fanouts = source.fanouts.size();
  SharedSums occurrences(map.num_buckets()), lists(map.num_buckets() * num_fanouts);
  source.graph.indices.visit([&](const auto* ids) {
    pool.parallel_for(
        entries.count, entries_per_piece(stride, map.num_buckets()), [&](Count begin, Count end) {
          const Range piece{entries.first + begin, end - begin};
          occurrences.add([&](Sums& sums) { count_occurrences(ids, piece, stride, source, map, sums); });
        });
  });
  pool.parallel_for(rows.count, kRowsPerPiece, [&](Count begin, Count end) {
    const Range piece{rows.first + begin, end - begin};
    lists.add([&](Sums& sums) { count_lists(piece, source, map, sums); });
  });
  if (machine.rank() == 0) {
    occurrences.add([&](Sums& sums) {
      for (std::size_t i = 0; i < source.halo_occurrences.size(); ++i)
        sums[map.bucket_of(source.graph.num_local + static_cast<Count>(i))] += source.halo_occurrences[i];
    });
  }
  machine.communicator().all_reduce(std::span(occurrences.get()));
  machine.communicator().all_reduce(std::span(lists.get()));

  NodeHeat heat{.segments = std::vector<std::vector<NodeGroup>>(map.num_segments())};
  map.for_each([&](std::size_t segment, std::size_t bucket, Count nodes) {
    NodeGroup group{nodes, static_cast<double>(occurrences.get()[bucket] * stride), {}};
    const std::int64_t* of_bucket = lists.get().data() + bucket * num_fanouts;
    group.sampled.assign(of_bucket, of_bucket + num_fanouts);
    heat.segments[segment].push_back(std::move(group));
  });
  return heat;
}

BatchAccesses expect_accesses(const NodeHeat& heat, const BatchShape& batch) {
  std::vector<const NodeGroup*> groups;
  double num_nodes = 0, occurrences = 0;
  for (const auto& segment : heat.segments) {
    for (const NodeGroup& group : segment) {
      groups.push_back(&group);
      num_nodes += static_cast<double>(group.nodes);
      occurrences += group.occurrences;
    }
  }
  // Of a group's nodes, the expected fraction in the frontier.
  std::vector<double> reached(groups.size(),
                              std::min(1.0, ratio(static_cast<double>(batch.seeds), num_nodes)));
  const auto frontier = [&] {
    double sum = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) sum += reached[g] * static_cast<double>(groups[g]->nodes);
    return sum;
  };
  BatchAccesses accesses;
  accesses.visits_per_list.resize(groups.size());
  for (std::size_t hop = 0; hop < batch.fanouts.size(); ++hop) {
    double draws = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      draws += reached[g] * groups[g]->sampled[hop];
      accesses.visits_per_list[g] += reached[g];
    }
    accesses.lists += frontier();
    accesses.neighbors += draws;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const double a_node =
          ratio(draws * groups[g]->occurrences, occurrences * static_cast<double>(groups[g]->nodes));
      reached[g] = 1 - (1 - reached[g]) * std::exp(-a_node);
    }
    accesses.nodes += frontier();
  }
  std::size_t g = 0;
  for (const auto& segment : heat.segments) {
    std::vector<placement::HeatCurve::Point> steps;
    for (const NodeGroup& group : segment)
      steps.push_back({group.nodes, reached[g++] * static_cast<double>(group.nodes)});
    accesses.features.push_back(curve_of(steps));
  }
  return accesses;
}

std::optional<AccessCounter::Mean> mean_accesses(const comm::Machine& machine, const ReadCounts& counts,
                                                 const ServedReads* served, const ReadTables& tables) {
  const BucketMap map(tables.part_rows);
  const Range own = counts.own();
  Sums rows(map.num_buckets());
  std::array<std::int64_t, 2> reads{};  // rows and lists of this machine
  const Range share = share_of({0, own.count}, machine.rank(), machine.size());
  for (Count row = share.first; row < share.end(); ++row) {
    const Count read = counts.rows(own.first + row) + (served ? served->rows.data()[row] : 0);
    rows[map.bucket_of(row)] += read;
    reads[0] += read;
    reads[1] += counts.visits(own.first + row) + (served ? served->visits.data()[row] : 0);
  }
  const NodeIndexView halo = tables.halo ? tables.halo->view() : NodeIndexView{};
  const Range kept = share_of({0, halo.size}, machine.rank(), machine.size());
  for (Count i = kept.first; i < kept.end(); ++i)
    rows[map.bucket_of(own.count + halo.positions[i])] += counts.rows(halo.nodes[i]);
  machine.communicator().all_reduce(std::span(rows));
  machine.communicator().all_reduce(std::span(reads));
  if (reads[0] == 0) return std::nullopt;

  const ReadCounts::Totals& totals = counts.totals();
  const auto a_batch = [&](std::int64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(totals.batches);
  };
  const Count visits =
      std::accumulate(totals.remote_visits.begin(), totals.remote_visits.end(), totals.own_visits);
  AccessCounter::Mean mean{
      .accesses = {.features = {},
                   .lists = a_batch(reads[1]),
                   .neighbors = a_batch(reads[1]) *
                                ratio(static_cast<double>(totals.neighbors), static_cast<double>(visits)),
                   .nodes = a_batch(totals.nodes)},
      .batches = totals.batches};
  std::vector<std::vector<placement::HeatCurve::Point>> steps(map.num_segments());
  map.for_each([&](std::size_t segment, std::size_t bucket, Count count) {
    steps[segment].push_back({count, a_batch(rows[bucket])});
  });
  for (const auto& segment : steps) mean.accesses.features.push_back(curve_of(segment));
  return mean;
}

AccessCounter::AccessCounter(const GraphView& graph, std::span<const Count> part_rows, const NodeIndex* halo)
    : map_(part_rows),
      first_node_(graph.first_node),
      num_local_(graph.num_local),
      halo_(halo),
      rows_(map_.num_buckets()) {
  const Count num_rows = std::accumulate(part_rows.begin(), part_rows.end(), Count{0});
  const Count expected = num_local_ + (halo ? halo->size() : 0);
  if (num_rows == expected) return;
  throw Error(fmt::format("accesses of {} nodes are to be counted in parts of {}", expected, num_rows));
}

void AccessCounter::add(const BatchReads& batch) {
  for (const NodeId node : batch.input_nodes) {
    const Count row = node - first_node_;
    if (row >= 0 && row < num_local_) {
      ++rows_[map_.bucket_of(row)];
      ++local_inputs_;
    } else if (const Count kept = halo_ ? halo_->find(node) : -1; kept >= 0) {
      ++rows_[map_.bucket_of(num_local_ + kept)];
    } else {
      ++other_inputs_;
    }
  }
  lists_ += batch.lists;
  neighbors_ += batch.neighbors;
  nodes_ += batch.nodes;
  ++batches_;
}

std::optional<AccessCounter::Mean> AccessCounter::mean(const comm::Machine& machine) const {
  Sums rows = rows_;
  std::array totals{local_inputs_, other_inputs_, lists_, neighbors_, nodes_, batches_};
  machine.communicator().all_reduce(std::span(rows));
  machine.communicator().all_reduce(std::span(totals));
  const auto [local, others, lists, neighbors, nodes, batches] = totals;
  if (local == 0) return std::nullopt;
  const double with_others = static_cast<double>(local + others) / static_cast<double>(local);
  const auto a_batch = [batches = batches](std::int64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(batches);
  };
  const std::size_t num_parts = map_.num_segments() - (halo_ ? 1 : 0);
  std::vector<std::vector<placement::HeatCurve::Point>> steps(map_.num_segments());
  map_.for_each([&](std::size_t segment, std::size_t bucket, Count count) {
    steps[segment].push_back({count, a_batch(rows[bucket]) * (segment < num_parts ? with_others : 1)});
  });
  Mean mean{.accesses = {.features = {},
                         .lists = a_batch(lists),
                         .neighbors = a_batch(neighbors),
                         .nodes = a_batch(nodes)},
            .batches = batches};
  for (const auto& segment : steps) mean.accesses.features.push_back(curve_of(segment));
  return mean;
}

}  // namespace strata::store
