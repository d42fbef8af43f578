// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::plan {
namespace {

constexpr int kShares = 64;                ///< steps of the share of the budget that replicas take
constexpr int kBisections = 60;            ///< to where the host and the peer path take the same time
constexpr double kEqual = 1e-9;            ///< relative difference below which two plans are equally good
constexpr std::size_t kMaxSubsetBits = 8;  ///< tensors that stay whole and are decided one by one

tensor::Segment totals(const tensor::Placement& placement) {
  tensor::Segment sum;
  for (const tensor::Segment& s : placement.segments) {
    sum.replicated += s.replicated;
    sum.striped += s.striped;
    sum.host += s.host;
  }
  return sum;
}

/// Rows on the fullest GPU; blocks are distributed round robin.
Count stripe_rows_a_gpu(Count striped, Count stripe_rows, int num_gpus) {
  if (striped == 0) return 0;
  const Count blocks = (striped + stripe_rows - 1) / stripe_rows;
  return std::min((blocks + num_gpus - 1) / num_gpus * stripe_rows, striped);
}

/// Bytes per GPU that it takes to find rows in strata that have only some of them.
std::int64_t division_bytes_of(const TensorDemand& demand, const tensor::Placement& placement) {
  const tensor::Segment sum = totals(placement);
  const auto is_part = [&](Count rows) { return rows > 0 && rows < sum.rows(); };
  return (is_part(sum.replicated) + is_part(sum.striped)) * demand.division_bytes;
}

std::int64_t gpu_bytes_of(const TensorDemand& demand, const tensor::Placement& placement, int num_gpus) {
  const tensor::Segment sum = totals(placement);
  if (num_gpus == 0) return 0;
  return (sum.replicated + stripe_rows_a_gpu(sum.striped, placement.stripe_rows, num_gpus)) *
             demand.row_bytes +
         division_bytes_of(demand, placement);
}

double peer_fraction(int num_gpus) { return num_gpus > 1 ? (num_gpus - 1.0) / num_gpus : 0; }

double seconds_of(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

/// Rows of one segment that the plan treats as equally hot.
struct Bucket {
  std::size_t segment = 0;
  Count first = 0, rows = 0;  ///< within the segment
  double accesses = 0;

  double heat() const { return accesses / static_cast<double>(rows); }
};

/// Buckets of decreasing heat. If rows are not ordered by heat, neighboring buckets are joined, because rows
/// can only be placed together with all rows before them.
std::vector<Bucket> falling_buckets(const HeatCurve& curve, std::size_t segment) {
  std::vector<Bucket> buckets;
  HeatCurve::Point last;
  for (const HeatCurve::Point& point : curve.points) {
    if (point.rows == last.rows) continue;
    buckets.push_back({segment, last.rows, point.rows - last.rows, point.accesses - last.accesses});
    last = point;
    while (buckets.size() > 1 && buckets.back().heat() >= buckets[buckets.size() - 2].heat() * (1 - kEqual)) {
      const Bucket joined = buckets.back();
      buckets.pop_back();
      buckets.back().rows += joined.rows;
      buckets.back().accesses += joined.accesses;
    }
  }
  return buckets;
}

/// Of all segments, the hottest first.
std::vector<Bucket> ranked_buckets(const TensorDemand& demand) {
  std::vector<Bucket> ranked;
  for (std::size_t s = 0; s < demand.segments.size(); ++s)
    for (const Bucket& bucket : falling_buckets(demand.segments[s], s)) ranked.push_back(bucket);
  std::ranges::stable_sort(ranked, [](const Bucket& a, const Bucket& b) { return a.heat() > b.heat(); });
  return ranked;
}

/// Equally hot buckets of a tensor's segments. A plan takes all of them, or the same fraction of each.
struct Level {
  std::size_t tensor = 0;
  std::vector<Bucket> buckets;
  double gain = 0;  ///< seconds on the host path that each byte on the GPUs saves
};

std::vector<Level> levels_of(std::span<const TensorDemand> demands) {
  struct Ranked {
    std::size_t tensor;
    Bucket bucket;
    double gain;
  };
  std::vector<Ranked> ranked;
  for (std::size_t t = 0; t < demands.size(); ++t) {
    if (demands[t].whole || demands[t].fixed || demands[t].row_bytes == 0) continue;
    for (std::size_t s = 0; s < demands[t].segments.size(); ++s) {
      for (const Bucket& bucket : falling_buckets(demands[t].segments[s], s)) {
        ranked.push_back({t, bucket, bucket.heat() * demands[t].rows_per_access / demands[t].rates.host});
      }
    }
  }
  std::ranges::stable_sort(ranked, [](const Ranked& a, const Ranked& b) { return a.gain > b.gain; });
  std::vector<Level> levels;
  for (const Ranked& r : ranked) {
    if (levels.empty() || levels.back().tensor != r.tensor || r.gain < levels.back().gain * (1 - kEqual)) {
      levels.push_back({r.tensor, {}, r.gain});
    }
    levels.back().buckets.push_back(r.bucket);
  }
  return levels;
}

/// Sums over the first x levels, for real x: a level's fraction counts proportionally.
class Cumulated {
 public:
  void push(double value) { sums_.push_back(sums_.back() + value); }
  double at(double x) const {
    const auto i = std::min(static_cast<std::size_t>(x), sums_.size() - 1);
    if (i + 1 == sums_.size()) return sums_[i];
    return sums_[i] + (x - static_cast<double>(i)) * (sums_[i + 1] - sums_[i]);
  }
  /// The largest x whose sum is at most `sum`.
  double inverse(double sum) const {
    const auto above = std::ranges::upper_bound(sums_, sum);
    if (above == sums_.end()) return static_cast<double>(sums_.size() - 1);
    const auto i = static_cast<std::size_t>(above - sums_.begin()) - 1;
    return static_cast<double>(i) + (sum - sums_[i]) / (sums_[i + 1] - sums_[i]);
  }
  double total() const { return sums_.back(); }

 private:
  std::vector<double> sums_ = {0};
};

/// Levels before `replicated` are replicated; those from there to `striped` are striped if that is possible.
struct Cut {
  double replicated = 0, striped = 0;
};

/// What the search minimises: first bytes that the host has no room for, then time, then all traffic off the
/// GPU.
struct Score {
  double excess = 0, batch = 0, traffic = 0;

  bool better_than(const Score& other) const {
    if (excess != other.excess) return excess < other.excess;
    if (std::abs(batch - other.batch) > kEqual * other.batch) return batch < other.batch;
    return traffic < other.traffic * (1 - kEqual);
  }
};

/// The search over the tensors that can be divided, given what the others take.
class Search {
 public:
  Search(std::span<const TensorDemand> demands, const PlanLimits& limits)
      : demands_(demands),
        levels_(levels_of(demands)),
        num_gpus_(limits.num_gpus),
        host_bytes_(static_cast<double>(limits.host_bytes)) {
    std::vector<bool> striped(demands.size(), false);
    for (const Level& level : levels_) {
      const TensorDemand& demand = demands[level.tensor];
      const auto row_bytes = static_cast<double>(demand.row_bytes);
      double bytes = 0, read = 0;
      for (const Bucket& bucket : level.buckets) {
        bytes += static_cast<double>(bucket.rows) * row_bytes;
        read += demand.bytes_read(bucket.accesses);
      }
      const bool stripes = num_gpus_ > 1 && demand.rates.peer > 0;
      bytes_.push(bytes);
      host_.push(read / demand.rates.host);
      striped_bytes_.push(stripes ? bytes : 0);
      striped_host_.push(stripes ? read / demand.rates.host : 0);
      striped_peer_.push(stripes ? seconds_of(read, demand.rates.peer) * peer_fraction(num_gpus_) : 0);
      if (stripes && !striped[level.tensor]) {
        striped[level.tensor] = true;
        stripe_slack_ += static_cast<double>(limits.stripe_rows + std::ssize(demand.segments)) * row_bytes;
      }
    }
  }

  struct Found {
    Cut cut;
    Score score;
  };
  /// The best cut for a budget when the other tensors already take `base`.
  Found best(double budget, const PathSeconds& base) const {
    Found found = score_of(cut_at(budget, 1), base);
    const auto consider = [&](double share) {
      const Found next = score_of(cut_at(budget, share), base);
      if (next.score.better_than(found.score)) found = next;
    };
    if (striped_bytes_.total() == 0) return found;
    for (int i = kShares - 1; i >= 0; --i) consider(static_cast<double>(i) / kShares);
    consider(greatest_share(
        [&](const Cut& cut) {
          const PathSeconds s = seconds_of_cut(cut, base);
          return s.host < s.peer;
        },
        budget));
    consider(greatest_share([&](const Cut& cut) { return host_bytes_of(cut) <= host_bytes_; }, budget));
    return found;
  }

  /// Adds the rows of the cut to placements whose rows all lie on the host.
  void apply(const Cut& cut, std::vector<tensor::Placement>& placements) const {
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      const double replicated = std::clamp(cut.replicated - static_cast<double>(i), 0.0, 1.0);
      double on_gpus = replicated;
      if (num_gpus_ > 1 && demands_[level.tensor].rates.peer > 0) {
        on_gpus = std::clamp(cut.striped - static_cast<double>(i), replicated, 1.0);
      }
      for (const Bucket& bucket : level.buckets) {
        tensor::Segment& segment = placements[level.tensor].segments[bucket.segment];
        const auto rows = static_cast<double>(bucket.rows);
        const auto copies = static_cast<Count>(replicated * rows);
        // Rounded up, because one row too many on the host can cost more than one too many on a peer.
        const auto striped =
            on_gpus > replicated ? static_cast<Count>(std::ceil(on_gpus * rows)) - copies : 0;
        segment.replicated += copies;
        segment.striped += striped;
        segment.host -= copies + striped;
      }
    }
  }

 private:
  Cut cut_at(double budget, double share) const {
    Cut cut;
    cut.replicated = bytes_.inverse(budget * share);
    const double left = std::max(0.0, budget - bytes_.at(cut.replicated) - stripe_slack_) * num_gpus_;
    cut.striped = cut.replicated;
    if (left > 0)
      cut.striped = std::max(cut.striped, striped_bytes_.inverse(striped_bytes_.at(cut.replicated) + left));
    return cut;
  }

  PathSeconds seconds_of_cut(const Cut& cut, const PathSeconds& base) const {
    PathSeconds s = base;
    s.peer += striped_peer_.at(cut.striped) - striped_peer_.at(cut.replicated);
    s.host += host_.total() - host_.at(cut.replicated) -
              (striped_host_.at(cut.striped) - striped_host_.at(cut.replicated));
    return s;
  }

  double host_bytes_of(const Cut& cut) const {
    return bytes_.total() - bytes_.at(cut.replicated) -
           (striped_bytes_.at(cut.striped) - striped_bytes_.at(cut.replicated));
  }

  Found score_of(const Cut& cut, const PathSeconds& base) const {
    const PathSeconds s = seconds_of_cut(cut, base);
    return {cut, {std::max(0.0, host_bytes_of(cut) - host_bytes_), s.batch(), s.peer + s.host}};
  }

  /// The largest share of the budget for replicas for which `holds` returns true. A larger share leaves more
  /// rows to the host and fewer to the peers; when both take the same time, neither can gain unless the other
  /// loses.
  template <typename Holds>
  double greatest_share(Holds&& holds, double budget) const {
    double low = 0, high = 1;
    for (int i = 0; i < kBisections; ++i) {
      const double middle = (low + high) / 2;
      (holds(cut_at(budget, middle)) ? low : high) = middle;
    }
    return low;
  }

  std::span<const TensorDemand> demands_;
  std::vector<Level> levels_;
  int num_gpus_;
  double host_bytes_;  ///< room for rows
  Cumulated bytes_, host_, striped_bytes_, striped_host_, striped_peer_;
  double stripe_slack_ = 0;  ///< bytes per GPU by which whole rows and blocks may exceed their share
};

std::vector<tensor::Placement> all_on_host(std::span<const TensorDemand> demands, const PlanLimits& limits) {
  std::vector<tensor::Placement> placements;
  for (const TensorDemand& demand : demands) {
    tensor::Placement placement{.segments = {}, .stripe_rows = limits.stripe_rows};
    for (const HeatCurve& curve : demand.segments) placement.segments.push_back({.host = curve.rows()});
    placements.push_back(demand.fixed.value_or(std::move(placement)));
  }
  return placements;
}

void replicate(tensor::Placement& placement) {
  for (tensor::Segment& s : placement.segments) s = {.replicated = s.rows()};
}

std::int64_t fixed_bytes(std::span<const TensorDemand> demands, const PlanLimits& limits) {
  std::int64_t bytes = 0;
  std::string names;
  for (const TensorDemand& demand : demands) {
    if (!demand.fixed) continue;
    bytes += gpu_bytes_of(demand, *demand.fixed, limits.num_gpus);
    names += (names.empty() ? "" : ", ") + demand.name;
  }
  if (bytes <= limits.gpu_bytes) return bytes;
  throw InputError(fmt::format("the placement asked for {} takes {} of each GPU, but the graph may take {}",
                               names, format_bytes(bytes), format_bytes(limits.gpu_bytes)),
                   "Ask for fewer rows on the GPUs with --placement, or raise --gpu-memory.");
}

/// Tensors that the plan places whole: on every GPU, or on the host.
std::vector<std::size_t> undecided_whole(std::span<const TensorDemand> demands) {
  std::vector<std::size_t> whole;
  for (std::size_t t = 0; t < demands.size(); ++t) {
    if (demands[t].whole && !demands[t].fixed && demands[t].row_bytes > 0) whole.push_back(t);
  }
  if (whole.size() > kMaxSubsetBits) {
    throw Error(fmt::format("{} tensors are to stay whole, but the planner decides on at most {}",
                            whole.size(), kMaxSubsetBits));
  }
  return whole;
}

}  // namespace

double HeatCurve::accesses_below(Count count) const {
  if (count >= rows()) return accesses();
  Point before;
  for (const Point& point : points) {
    if (count < point.rows) {
      const double part =
          static_cast<double>(count - before.rows) / static_cast<double>(point.rows - before.rows);
      return before.accesses + part * (point.accesses - before.accesses);
    }
    before = point;
  }
  return accesses();
}

Count TensorDemand::rows() const {
  return std::transform_reduce(segments.begin(), segments.end(), Count{0}, std::plus<>(),
                               [](const HeatCurve& curve) { return curve.rows(); });
}

double TensorDemand::accesses() const {
  return std::transform_reduce(segments.begin(), segments.end(), 0.0, std::plus<>(),
                               [](const HeatCurve& curve) { return curve.accesses(); });
}

double PathSeconds::batch() const { return std::max({local, peer, host}); }

namespace {

/// Placements whose rows fit into `budget` on GPUs, in addition to those that are fixed.
std::vector<tensor::Placement> place_rows(std::span<const TensorDemand> demands, const PlanLimits& limits,
                                          double budget) {
  std::vector<tensor::Placement> placements = all_on_host(demands, limits);
  const Search search(demands, limits);
  const std::vector<std::size_t> whole = undecided_whole(demands);

  PathSeconds fixed;  // of fixed placements; and `local`, which no choice changes
  for (std::size_t t = 0; t < demands.size(); ++t) {
    const PathSeconds s = estimate(demands.subspan(t, 1), {placements[t]}, limits).seconds;
    fixed.local += s.local;
    if (demands[t].fixed) fixed.peer += s.peer, fixed.host += s.host;
  }
  std::optional<Search::Found> best;
  std::size_t best_mask = 0;
  for (std::size_t left_out = 0; left_out < std::size_t{1} << whole.size(); ++left_out) {
    double left = budget;
    PathSeconds base = fixed;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const TensorDemand& demand = demands[whole[i]];
      const auto row_bytes = static_cast<double>(demand.row_bytes);
      if ((left_out >> i & 1) == 0) {
        left -= static_cast<double>(demand.rows()) * row_bytes;
      } else {
        base.host += demand.bytes_read(demand.accesses()) / demand.rates.host;
      }
    }
    if (left < 0) continue;
    const Search::Found found = search.best(left, base);
    if (!best || found.score.better_than(best->score)) best = found, best_mask = left_out;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if ((best_mask >> i & 1) == 0) replicate(placements[whole[i]]);
  }
  search.apply(best->cut, placements);
  return placements;
}

}  // namespace

MachinePlan plan_tensors(std::span<const TensorDemand> demands, const PlanLimits& limits) {
  if (limits.num_gpus == 0) return estimate(demands, all_on_host(demands, limits), limits);
  const std::int64_t budget = limits.gpu_bytes - fixed_bytes(demands, limits);
  // bytes to find rows, when it is known which tensors have only some rows on GPUs
  std::int64_t reserved = 0;
  while (true) {
    MachinePlan plan =
        estimate(demands, place_rows(demands, limits, static_cast<double>(budget - reserved)), limits);
    if (plan.gpu_bytes <= limits.gpu_bytes || reserved == budget) return plan;
    std::int64_t needed = 0;
    for (std::size_t t = 0; t < demands.size(); ++t)
      if (!demands[t].fixed) needed += division_bytes_of(demands[t], plan.tensors[t].placement);
    reserved = std::min(std::max(needed, reserved + 1), budget);
  }
}

std::vector<HottestRows> hottest_rows(const TensorDemand& demand, std::span<const double> shares) {
  const std::vector<Bucket> ranked = ranked_buckets(demand);
  const double all = demand.accesses();
  std::vector<HottestRows> hottest;
  auto bucket = ranked.begin();
  Count rows_before = 0;
  double accesses_before = 0;
  for (const double share : shares) {
    const double wanted = all * share * (1 - kEqual);
    for (; bucket != ranked.end() && accesses_before + bucket->accesses < wanted; ++bucket) {
      rows_before += bucket->rows;
      accesses_before += bucket->accesses;
    }
    const double rest = std::max(0.0, wanted - accesses_before);
    const double taken = bucket != ranked.end() && rest > 0 ? std::ceil(rest / bucket->heat()) : 0;
    hottest.push_back({share, rows_before + static_cast<Count>(taken)});
  }
  return hottest;
}

MachinePlan estimate(std::span<const TensorDemand> demands, std::vector<tensor::Placement> placements,
                     const PlanLimits& limits) {
  MachinePlan plan;
  for (std::size_t t = 0; t < demands.size(); ++t) {
    const TensorDemand& demand = demands[t];
    const tensor::PathRates& rates = demand.rates;
    double replicated = 0, striped = 0, host = 0;
    for (std::size_t s = 0; s < demand.segments.size(); ++s) {
      const tensor::Segment& segment = placements[t].segments[s];
      const HeatCurve& curve = demand.segments[s];
      const double below_stripes = curve.accesses_below(segment.replicated);
      const double below_host = curve.accesses_below(segment.replicated + segment.striped);
      replicated += below_stripes;
      striped += below_host - below_stripes;
      host += curve.accesses() - below_host;
    }
    const double all = demand.accesses(), far = peer_fraction(limits.num_gpus);
    plan.seconds.local += seconds_of(demand.bytes_read(all), rates.local);
    plan.seconds.peer += seconds_of(demand.bytes_read(striped), rates.peer) * far;
    const double host_start = host > 0 ? rates.host_start : 0;
    plan.seconds.host += seconds_of(demand.bytes_read(host), rates.host) + host_start;
    plan.gpu_bytes += gpu_bytes_of(demand, placements[t], limits.num_gpus);

    TensorPlan tensor{demand.name, demand.row_bytes, std::move(placements[t]), {}};
    const tensor::Segment sum = totals(tensor.placement);
    const double striped_rate = far > 0 ? std::min(rates.local, rates.peer / far) : rates.local;
    const auto add = [&](tensor::Stratum stratum, Count rows, double accesses, double rate) {
      if (rows > 0)
        tensor.strata.push_back({stratum, rows, all > 0 ? accesses / all : 0, rate,
                                 seconds_of(demand.bytes_read(accesses), rate)});
    };
    add(tensor::Stratum::replicated, sum.replicated, replicated, rates.local);
    add(tensor::Stratum::striped, sum.striped, striped, striped_rate);
    add(tensor::Stratum::host, sum.host, host, rates.host);
    plan.tensors.push_back(std::move(tensor));
  }
  return plan;
}

}  // namespace strata::plan
