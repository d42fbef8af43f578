// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include "strata/util/random.hpp"
#include "strata/util/row_code.hpp"
#include "strata/util/threads.hpp"

namespace strata {
namespace {

constexpr int kRounds = 12;  // of k-means; later ones change little
constexpr Count kEntries = RowCode::kEntries;

using Point = std::array<float, RowCode::kGroupCols>;

/// Computed in f64, which has the squares of all floats.
double squared_distance(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) {
    const double difference = static_cast<double>(a[c]) - static_cast<double>(b[c]);
    sum += difference * difference;
  }
  return sum;
}

/// One group's columns of the sample, each distinct point once and in a keyed random order.
struct Cloud {
  std::vector<Point> points;
  std::vector<Count> weights;  // how often each occurs

  Cloud(std::vector<Point> all, std::uint64_t key) {
    std::ranges::sort(all);
    std::vector<Count> order;
    std::vector<Count> starts;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i == 0 || all[i] != all[i - 1]) starts.push_back(static_cast<Count>(i));
    order.resize(starts.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {},
                      [&](Count i) { return std::pair(mix64(key ^ static_cast<std::uint64_t>(i)), i); });
    starts.push_back(std::ssize(all));
    for (const Count i : order) {
      const auto at = static_cast<std::size_t>(i);
      points.push_back(all[static_cast<std::size_t>(starts[at])]);
      weights.push_back(starts[at + 1] - starts[at]);
    }
  }
};

struct NearestEntry {
  std::size_t entry = 0;
  double distance = 0;
};

NearestEntry nearest(const std::vector<Point>& entries, const Point& point) {
  NearestEntry best{0, squared_distance(entries[0], point)};
  for (std::size_t e = 1; e < entries.size(); ++e)
    if (const double distance = squared_distance(entries[e], point); distance < best.distance)
      best = {e, distance};
  return best;
}

/// One round of Lloyd's algorithm. An entry that is nearest to nothing moves to the point that costs most.
void improve(const Cloud& cloud, std::vector<Point>& entries) {
  std::vector<std::array<double, RowCode::kGroupCols>> sums(entries.size());
  std::vector<Count> counts(entries.size());
  std::vector<std::pair<double, std::size_t>> costs;
  for (std::size_t p = 0; p < cloud.points.size(); ++p) {
    const NearestEntry to = nearest(entries, cloud.points[p]);
    const auto weight = static_cast<double>(cloud.weights[p]);
    for (std::size_t c = 0; c < sums[to.entry].size(); ++c)
      sums[to.entry][c] += weight * static_cast<double>(cloud.points[p][c]);
    counts[to.entry] += cloud.weights[p];
    costs.emplace_back(-weight * to.distance, p);
  }
  std::ranges::sort(costs);
  std::size_t next_costly = 0;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    if (counts[e] == 0) {
      if (next_costly < costs.size()) entries[e] = cloud.points[costs[next_costly++].second];
      continue;
    }
    for (std::size_t c = 0; c < entries[e].size(); ++c)
      entries[e][c] = static_cast<float>(sums[e][c] / static_cast<double>(counts[e]));
  }
}

std::vector<Point> entries_of(const Cloud& cloud) {
  const std::size_t distinct = std::min(cloud.points.size(), static_cast<std::size_t>(kEntries));
  std::vector<Point> entries(cloud.points.begin(),
                             cloud.points.begin() + static_cast<std::ptrdiff_t>(distinct));
  if (cloud.points.size() > entries.size())
    for (int round = 0; round < kRounds; ++round) improve(cloud, entries);
  entries.resize(static_cast<std::size_t>(kEntries));
  return entries;
}

}  // namespace

RowCode train_vector_code(const float* rows, Count num_rows, Count cols, std::uint64_t seed,
                          ThreadPool& pool) {
  RowCode code{.kind = RowCode::Kind::vq, .cols = cols};
  auto books = std::make_shared<std::vector<float>>(
      static_cast<std::size_t>(code.num_groups() * kEntries * RowCode::kGroupCols));
  pool.parallel_for(code.num_groups(), 1, [&](Count begin, Count end) {
    for (Count g = begin; g < end; ++g) {
      const Count first = g * RowCode::kGroupCols, width = std::min(RowCode::kGroupCols, cols - first);
      std::vector<Point> points(static_cast<std::size_t>(num_rows));
      for (Count r = 0; r < num_rows; ++r)
        std::copy_n(rows + r * cols + first, width, points[static_cast<std::size_t>(r)].begin());
      const Cloud cloud(std::move(points), mix64(seed) ^ mix64(static_cast<std::uint64_t>(g)));
      float* out = books->data() + g * kEntries * RowCode::kGroupCols;
      for (const Point& entry : entries_of(cloud)) out = std::ranges::copy(entry, out).out;
    }
  });
  code.codebooks = std::move(books);
  return code;
}

}  // namespace strata
