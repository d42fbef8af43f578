// SPDX-License-Identifier: Apache-2.0
#include "task/roc_auc.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <span>

namespace strata::train {
namespace {

constexpr Count kGrain = 1 << 15;

/// Numbers of scores per class, over all ranks.
struct Totals {
  std::vector<std::int64_t> positives, negatives, not_numbers;

  bool has_curve(std::size_t c) const { return not_numbers[c] == 0 && positives[c] > 0 && negatives[c] > 0; }
  bool fewer_positives(std::size_t c) const { return positives[c] <= negatives[c]; }
};

Totals count_all(const std::vector<ClassScores>& classes, const comm::Communicator& communicator) {
  Totals totals;
  const auto count_nan = [](const std::vector<float>& scores) {
    return std::ranges::count_if(scores, [](float score) { return std::isnan(score); });
  };
  for (const ClassScores& scores : classes) {
    totals.positives.push_back(std::ssize(scores.positives));
    totals.negatives.push_back(std::ssize(scores.negatives));
    totals.not_numbers.push_back(count_nan(scores.positives) + count_nan(scores.negatives));
  }
  for (auto* counts : {&totals.positives, &totals.negatives, &totals.not_numbers})
    communicator.all_reduce(std::span(*counts));
  return totals;
}

/// Sorts scores on the pool: pieces first, which are then merged two by two.
void sort_on(ThreadPool& pool, std::vector<float>& scores) {
  const Count count = std::ssize(scores);
  const auto at = [&](Count i) { return scores.begin() + std::min(i, count); };
  pool.parallel_for(count, kGrain, [&](Count begin, Count end) { std::sort(at(begin), at(end)); });
  for (Count sorted = kGrain; sorted < count; sorted *= 2) {
    const Count pairs = (count + 2 * sorted - 1) / (2 * sorted);
    pool.parallel_for(pairs, 1, [&](Count first, Count last) {
      for (Count pair = first; pair < last; ++pair) {
        const Count begin = pair * 2 * sorted;
        std::inplace_merge(at(begin), at(begin + sorted), at(begin + 2 * sorted));
      }
    });
  }
}

/// The first of the ascending scores from `from` on for which `is_behind` holds. It is expected to lie near.
template <typename IsBehind>
const float* gallop(const float* from, const float* end, const IsBehind& is_behind) {
  Count step = 1;
  while (step < end - from && !is_behind(from[step - 1])) {
    from += step;
    step *= 2;
  }
  return std::partition_point(from, from + std::min<Count>(step, end - from),
                              [&](float score) { return !is_behind(score); });
}

/// Twice the number of pairs of a score of `others` and a lower score of `mine`; equal scores count as half a
/// pair. Both are ascending.
double twice_the_pairs(std::span<const float> others, const std::vector<float>& mine, ThreadPool& pool) {
  std::atomic<std::int64_t> pairs{0};
  const float *const first = mine.data(), *const last = first + mine.size();
  pool.parallel_for(std::ssize(others), kGrain, [&](Count begin, Count end) {
    const auto piece = others.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const float *below = std::lower_bound(first, last, piece.front()), *up_to = below;
    std::int64_t sum = 0;
    for (const float score : piece) {
      below = gallop(below, last, [=](float own) { return own >= score; });
      up_to = gallop(std::max(below, up_to), last, [=](float own) { return own > score; });
      sum += (below - first) + (up_to - first);
    }
    pairs += sum;
  });
  return static_cast<double>(pairs.load());
}

/// A rank's scores of the smaller side of every class, class after class, in the order in which they are
/// sent.
class Stream {
 public:
  Stream(const std::vector<ClassScores>& classes, const Totals& totals, const CurveWork& work)
      : classes_(classes), totals_(totals), work_(work), counts_(classes.size()) {}

  /// Calls visit(class, scores) for the stream of rank `root`, piece by piece. Collective.
  template <typename Visit>
  void for_pieces(int root, const Visit& visit) {
    const comm::Communicator& communicator = *work_.communicator;
    const bool mine = communicator.rank() == root;
    for (std::size_t c = 0; c < counts_.size() && mine; ++c) counts_[c] = std::ssize(side(c));
    communicator.broadcast(counts_.data(), std::ssize(counts_) * static_cast<Count>(sizeof(Count)), root);
    Count left = 0;
    for (const Count count : counts_) left += count;
    Place at;
    while (left > 0) {
      piece_.resize(static_cast<std::size_t>(std::min(left, work_.piece_scores)));
      if (mine) {
        for_runs(at, [&](std::size_t c, Count first, std::span<float> run) {
          std::ranges::copy(side(c).subspan(static_cast<std::size_t>(first), run.size()), run.begin());
        });
      }
      communicator.broadcast(piece_.data(), std::ssize(piece_) * static_cast<Count>(sizeof(float)), root);
      at = for_runs(at, [&](std::size_t c, Count, std::span<const float> run) { visit(c, run); });
      left -= std::ssize(piece_);
      work_.alive();
    }
  }

 private:
  std::span<const float> side(std::size_t c) const {
    if (!totals_.has_curve(c)) return {};
    return totals_.fewer_positives(c) ? classes_[c].positives : classes_[c].negatives;
  }

  /// A score of the stream.
  struct Place {
    std::size_t c = 0;  // its class
    Count score = 0;
  };
  /// Calls use(class, its first score, run) for the runs of scores of one class that fit into the piece from
  /// `at` on. Returns the place after the piece.
  template <typename Use>
  Place for_runs(Place at, const Use& use) {
    for (std::span<float> room(piece_); !room.empty();) {
      const auto run = std::min(room.size(), static_cast<std::size_t>(counts_[at.c] - at.score));
      if (run > 0) use(at.c, at.score, room.first(run));
      room = room.subspan(run);
      at.score += static_cast<Count>(run);
      if (at.score == counts_[at.c]) at = {.c = at.c + 1, .score = 0};
    }
    return at;
  }

  const std::vector<ClassScores>& classes_;
  const Totals& totals_;
  const CurveWork& work_;
  std::vector<Count> counts_;
  std::vector<float> piece_;
};

}  // namespace

std::vector<double> areas_under_curves(std::vector<ClassScores>& classes, const CurveWork& work) {
  if (classes.empty()) return {};
  const Totals totals = count_all(classes, *work.communicator);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (!totals.has_curve(c)) continue;
    sort_on(*work.pool, classes[c].positives);
    sort_on(*work.pool, classes[c].negatives);
    work.alive();
  }
  std::vector<double> twice_below(classes.size());
  Stream stream(classes, totals, work);
  for (int root = 0; root < work.communicator->size(); ++root) {
    stream.for_pieces(root, [&](std::size_t c, std::span<const float> others) {
      const ClassScores& mine = classes[c];
      twice_below[c] +=
          twice_the_pairs(others, totals.fewer_positives(c) ? mine.negatives : mine.positives, *work.pool);
    });
  }
  work.communicator->all_reduce(std::span(twice_below));
  std::vector<double> areas(classes.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (!totals.has_curve(c)) continue;
    const double pairs = static_cast<double>(totals.positives[c]) * static_cast<double>(totals.negatives[c]);
    // If positives below negatives were counted, these are the wrong pairs.
    const double twice_right = totals.fewer_positives(c) ? twice_below[c] : 2 * pairs - twice_below[c];
    areas[c] = twice_right / 2 / pairs;
  }
  return areas;
}

}  // namespace strata::train
