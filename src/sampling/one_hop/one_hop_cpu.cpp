// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "choosers/subset_cpu.hpp"
#include "one_hop/hop_rules.hpp"
#include "strata/util/error.hpp"

namespace strata::sampling {
namespace {

constexpr Count kSeedsPerPiece = 1024;

/// The list of one entry of the seeds.
struct List {
  NodeId seed;
  Count begin, degree;
};

template <typename Id, typename Weight>
class HopOnCpu final : public OneHop {
 public:
  HopOnCpu(const HopArrays& arrays, const IdSpan& seeds, const HopRule& rule, ThreadPool& pool)
      : arrays_(arrays),
        weights_(arrays.weights.value_or(PiecedArray{})),
        seeds_(seeds),
        rule_(rule),
        pool_(pool),
        offsets_(static_cast<std::size_t>(seeds.size) + 1) {
    for_each_piece([&](Count i) { offsets_[static_cast<std::size_t>(i)] = count(i); });
    std::exclusive_scan(offsets_.begin(), offsets_.end(), offsets_.begin(), Count{0});
  }

  Count num_edges() const override { return offsets_.back(); }

  void choose(const HopEdges& out) override {
    seeds_.visit([&](const auto* typed) {
      using Seed = std::remove_cvref_t<decltype(*typed)>;
      auto* const rows = static_cast<Seed*>(out.seeds);
      auto* const neighbors = static_cast<Id*>(out.neighbors);
      for_each_piece([&](Count i) {
        const List list = list_of(i);
        Count edge = offsets_[static_cast<std::size_t>(i)];
        const Count before = out.and_seeds ? i : 0;
        for_each_pick(i, list, [&](Count position) {
          if (rows != nullptr) rows[edge] = static_cast<Seed>(list.seed);
          neighbors[before + edge++] = element<Id>(arrays_.indices, list.begin + position);
        });
        if (out.and_seeds) neighbors[before + edge] = static_cast<Id>(list.seed);
      });
    });
  }

  void starts(Count* out) const override { std::ranges::copy(offsets_, out); }

 private:
  template <typename Body>
  void for_each_piece(Body body) const {
    pool_.parallel_for(seeds_.size, kSeedsPerPiece, [&](Count begin, Count end) {
      for (Count i = begin; i < end; ++i) body(i);
    });
  }

  List list_of(Count i) const {
    const NodeId seed = seeds_[i];
    if (seed < 0 || seed + 1 >= arrays_.indptr.size) refuse_seed(i, seed, arrays_.indptr.size - 1);
    const Count begin = id_at(arrays_.indptr, seed), end = id_at(arrays_.indptr, seed + 1);
    if (begin < 0 || end < begin || end > arrays_.indices.size) refuse_list(seed, arrays_.indices.size);
    return {.seed = seed, .begin = begin, .degree = end - begin};
  }

  Count count(Count i) const {
    const List list = list_of(i);
    if (!arrays_.weights) return unweighted_count(rule_, list.degree);
    const ListWeights<Weight> weights{&weights_, list.begin};
    Count positive = 0;
    for (std::uint32_t p = 0; p < static_cast<std::uint32_t>(list.degree); ++p) {
      if (!is_weight(weights[p])) refuse_weight(list.begin + p);
      positive += weights[p] > 0;
    }
    return unweighted_count(rule_, positive);
  }

  template <typename Take>
  void for_each_pick(Count i, const List& list, Take take) const {
    const std::uint64_t key = entry_key(rule_.key, i);
    const Count picks = offsets_[static_cast<std::size_t>(i) + 1] - offsets_[static_cast<std::size_t>(i)];
    if (!arrays_.weights && takes_subset(rule_, list.degree)) {
      std::uint32_t positions[Subset::kMaxCount];
      choose_subset(Subset(list.degree, picks, key), static_cast<int>(picks), positions);
      for (Count j = 0; j < picks; ++j) take(positions[j]);
    } else if (!arrays_.weights) {
      for (Count j = 0; j < picks; ++j) take(unweighted_position(rule_, key, list.degree, j));
    } else if (rule_.replacement == Replacement::with) {
      draw(list, key, picks, take);
    } else {
      race(list, key, picks, take);
    }
  }

  /// Each draw is a point below the sum of the list's whole weights.
  template <typename Take>
  void draw(const List& list, std::uint64_t key, Count picks, Take take) const {
    if (picks == 0) return;
    const ListWeights<Weight> weights{&weights_, list.begin};
    const auto degree = static_cast<std::uint32_t>(list.degree);
    float largest = 0;
    for (std::uint32_t p = 0; p < degree; ++p) largest = std::max(largest, weights[p]);
    const WholeWeights whole(largest, degree);
    std::vector<std::uint64_t> ends(degree);
    std::uint64_t sum = 0;
    for (std::uint32_t p = 0; p < degree; ++p) ends[p] = sum += whole(weights[p]);
    for (Count j = 0; j < picks; ++j) {
      const auto point = below(keyed_word(key, static_cast<std::uint64_t>(j)), sum);
      take(std::ranges::upper_bound(ends, point) - ends.begin());
    }
  }

  /// The first `picks` edges that arrive, in the order of the list.
  template <typename Take>
  void race(const List& list, std::uint64_t key, Count picks, Take take) const {
    const ListWeights<Weight> weights{&weights_, list.begin};
    std::vector<std::uint64_t> arrivals;
    for (std::uint32_t p = 0; p < static_cast<std::uint32_t>(list.degree); ++p)
      if (weights[p] > 0) arrivals.push_back(arrival(keyed_word(key, p), weights[p], p));
    const auto last = arrivals.begin() + picks;
    if (last != arrivals.end()) std::nth_element(arrivals.begin(), last, arrivals.end());
    std::vector<std::uint32_t> positions;
    for (auto at = arrivals.begin(); at != last; ++at) positions.push_back(static_cast<std::uint32_t>(*at));
    std::ranges::sort(positions);
    for (const std::uint32_t position : positions) take(static_cast<Count>(position));
  }

  HopArrays arrays_;
  PiecedArray weights_;
  IdSpan seeds_;
  HopRule rule_;
  ThreadPool& pool_;
  std::vector<Count> offsets_;
};

void check(const HopRule& rule, bool weighted) {
  const bool all_is_clear = !weighted && rule.replacement == Replacement::without;
  if (rule.fanout >= 0 || (rule.fanout == -1 && all_is_clear)) return;
  throw InputError(fmt::format("num_picks is {}", rule.fanout),
                   "Give 0 or more; -1, for all neighbors, only without probabilities and replacement.");
}

void check(const HopArrays& arrays) {
  const auto is_id = [](const PiecedArray& array) {
    return array.dtype == DType::i64 || array.dtype == DType::i32;
  };
  if (!is_id(arrays.indptr) || !is_id(arrays.indices))
    throw InputError("indptr and indices are not int32 or int64");
  if (arrays.indptr.size < 1)
    throw InputError("indptr is empty", "It has one entry more than there are nodes.");
  if (!arrays.weights) return;
  if (arrays.weights->dtype != DType::f32 && arrays.weights->dtype != DType::f64)
    throw InputError("the probabilities are not float or double");
  if (arrays.weights->size != arrays.indices.size) {
    throw InputError(
        fmt::format("there are {} probabilities for {} indices", arrays.weights->size, arrays.indices.size),
        "Give one per index.");
  }
}

}  // namespace

void refuse_seed(Count position, NodeId seed, Count num_nodes) {
  throw std::out_of_range(fmt::format("seed {} is {}, which is none of {} nodes", position, seed, num_nodes));
}

void refuse_list(NodeId node, Count num_indices) {
  throw InputError(
      fmt::format("indptr[{}] and indptr[{}] bound no list of {} indices", node, node + 1, num_indices),
      "indptr ascends from 0 to the number of indices.");
}

void refuse_weight(Count index) {
  throw InputError(fmt::format("the probability of index {} is negative, infinite or not a number", index),
                   "Give finite float32 numbers of at least 0; neighbors with 0 are never chosen.");
}

std::unique_ptr<OneHop> make_hop(const HopArrays& arrays, const IdSpan& seeds, const HopRule& rule,
                                 HopPlace place) {
  check(rule, arrays.weights.has_value());
  check(arrays);
#if STRATA_WITH_CUDA
  if (place.stream.device().is_cuda()) return make_hop_on_gpu(arrays, seeds, rule, std::move(place));
#endif
  return visit_types(arrays, [&](auto index, auto weight) -> std::unique_ptr<OneHop> {
    return std::make_unique<HopOnCpu<decltype(index), decltype(weight)>>(arrays, seeds, rule, *place.pool);
  });
}

}  // namespace strata::sampling
