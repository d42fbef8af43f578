// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/heat.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>

namespace strata::plan {
namespace {

constexpr Count kBlock = 4096;  // entries read one after the other
constexpr Count kRowsPerPiece = 1 << 20;

using Sums = std::vector<std::int64_t>;

/// Adds what `work` counts in a piece, in memory of its own, to sums that threads share.
template <typename Work>
void add_piece(std::span<std::int64_t> sums, std::mutex& mutex, Work&& work) {
  Sums own(sums.size());
  work(own);
  const std::lock_guard lock(mutex);
  std::ranges::transform(sums, own, sums.begin(), std::plus<>());
}

/// Adds the occurrences of this machine's nodes in every `stride`-th block of `entries`.
template <typename Id>
void count_occurrences(const Id* ids, Range entries, Count stride, const HeatSource& source,
                       const BucketMap& map, Sums& sums) {
  const auto num_local = static_cast<std::uint64_t>(source.num_local);
  for (Count first = entries.first; first < entries.end(); first += kBlock * stride) {
    const Count end = std::min(first + kBlock, entries.end());
    for (Count i = first; i < end; ++i) {
      const NodeId local = static_cast<NodeId>(ids[i]) - source.first_node;
      if (static_cast<std::uint64_t>(local) < num_local) ++sums[map.bucket_of(local)];
    }
  }
}

/// A row of sums per bucket: what each fanout samples.
void count_lists(Range rows, const HeatSource& source, const BucketMap& map, Sums& sums) {
  const std::size_t num_fanouts = source.fanouts.size();
  for (Count row = rows.first; row < rows.end(); ++row) {
    const Count degree = source.indptr[row + 1] - source.indptr[row];
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

HeatCurve curve_of(std::span<const HeatCurve::Point> steps) {
  HeatCurve curve;
  HeatCurve::Point sum;
  for (const HeatCurve::Point& step : steps) {
    sum = {sum.rows + step.rows, sum.accesses + step.accesses};
    curve.points.push_back(sum);
  }
  return curve;
}

}  // namespace

HeatCounter::HeatCounter(const HeatSource& source, RankShare share, ThreadPool& pool)
    : map_(source.part_rows),
      num_fanouts_(source.fanouts.size()),
      stride_(std::max<Count>(1, (source.indices.size + source.max_entries - 1) / source.max_entries)),
      sums_(map_.num_buckets() * (1 + num_fanouts_)) {
  const std::span<std::int64_t> occurrences = std::span(sums_).first(map_.num_buckets()),
                                lists = std::span(sums_).subspan(map_.num_buckets());
  const Range entries = share.of({0, source.indices.size}), rows = share.of({0, source.num_local});
  std::mutex mutex;
  source.indices.visit([&](const auto* ids) {
    pool.parallel_for(
        entries.count, entries_per_piece(stride_, map_.num_buckets()), [&](Count begin, Count end) {
          const Range piece{entries.first + begin, end - begin};
          add_piece(occurrences, mutex,
                    [&](Sums& sums) { count_occurrences(ids, piece, stride_, source, map_, sums); });
        });
  });
  pool.parallel_for(rows.count, kRowsPerPiece, [&](Count begin, Count end) {
    const Range piece{rows.first + begin, end - begin};
    add_piece(lists, mutex, [&](Sums& sums) { count_lists(piece, source, map_, sums); });
  });
  if (share.rank > 0) return;
  for (std::size_t i = 0; i < source.halo_occurrences.size(); ++i)
    occurrences[map_.bucket_of(source.num_local + static_cast<Count>(i))] += source.halo_occurrences[i];
}

NodeHeat HeatCounter::heat() const {
  NodeHeat heat{.segments = std::vector<std::vector<NodeGroup>>(map_.num_segments())};
  map_.for_each([&](std::size_t segment, std::size_t bucket, Count nodes) {
    NodeGroup group{nodes, static_cast<double>(sums_[bucket] * stride_), {}};
    const std::int64_t* of_bucket = sums_.data() + map_.num_buckets() + bucket * num_fanouts_;
    group.sampled.assign(of_bucket, of_bucket + num_fanouts_);
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
    std::vector<HeatCurve::Point> steps;
    for (const NodeGroup& group : segment)
      steps.push_back({group.nodes, reached[g++] * static_cast<double>(group.nodes)});
    accesses.features.push_back(curve_of(steps));
  }
  return accesses;
}

BatchAccesses mean_accesses(const BucketMap& map, const CountedReads& counted, std::size_t own_segments,
                            double own_factor) {
  const auto per_batch = [&](std::int64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(counted.batches);
  };
  std::vector<std::vector<HeatCurve::Point>> steps(map.num_segments());
  map.for_each([&](std::size_t segment, std::size_t bucket, Count count) {
    const double factor = segment < own_segments ? own_factor : 1;
    steps[segment].push_back({count, per_batch(counted.rows[bucket]) * factor});
  });
  BatchAccesses accesses{.features = {},
                         .lists = per_batch(counted.lists),
                         .neighbors = per_batch(counted.neighbors),
                         .nodes = per_batch(counted.nodes)};
  for (const auto& segment : steps) accesses.features.push_back(curve_of(segment));
  return accesses;
}

}  // namespace strata::plan
