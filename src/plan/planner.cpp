// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "strata/plan/placement.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::plan {
namespace {

using tensor::kStrata;
using enum tensor::Stratum;

constexpr int kShares = 64;                ///< steps of the share of the budget that replicas take
constexpr int kBisections = 60;            ///< to where the host and the peer path take the same time
constexpr double kEqual = 1e-9;            ///< relative difference below which two plans are equally good
constexpr std::size_t kMaxSubsetBits = 8;  ///< tensors that stay whole and are decided one by one

/// Rows on the fullest GPU; blocks are distributed round robin.
Count stripe_rows_a_gpu(Count striped, Count stripe_rows, int num_gpus) {
  if (striped == 0) return 0;
  const Count blocks = (striped + stripe_rows - 1) / stripe_rows;
  return std::min((blocks + num_gpus - 1) / num_gpus * stripe_rows, striped);
}

/// Bytes per GPU that it takes to find rows in strata that have only some of them.
std::int64_t division_bytes_of(const TensorDemand& demand, const tensor::Placement& placement) {
  const tensor::Segment sum = placement.total();
  const auto is_part = [&](Count rows) { return rows > 0 && rows < sum.rows(); };
  return (is_part(sum[replicated]) + is_part(sum[striped])) * demand.division_bytes;
}

std::int64_t gpu_bytes_of(const TensorDemand& demand, const tensor::Placement& placement, int num_gpus) {
  const tensor::Segment sum = placement.total();
  if (num_gpus == 0) return 0;
  return (sum[replicated] + stripe_rows_a_gpu(sum[striped], placement.stripe_rows, num_gpus)) *
             demand.row_bytes +
         division_bytes_of(demand, placement);
}

double peer_fraction(int num_gpus) { return num_gpus > 1 ? (num_gpus - 1.0) / num_gpus : 0; }

double seconds_of(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

/// Returns the seconds that reads of a level's rows take on its path.
double seconds_of_path(tensor::Stratum s, double bytes, const tensor::PathRates& rates, int num_gpus) {
  return seconds_of(bytes, rates[s].bytes_per_second) * (s == striped ? peer_fraction(num_gpus) : 1);
}

/// Whether a plan may put rows of the tensor there.
bool can_use(tensor::Stratum s, const TensorDemand& demand, int num_gpus) {
  if (s == replicated || s == host) return true;
  return (s != striped || num_gpus > 1) && demand.rates[s].bytes_per_second > 0;
}

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
struct Group {
  std::size_t tensor = 0;
  std::vector<Bucket> buckets;
  double gain = 0;  ///< seconds on the host path that each byte on the GPUs saves
};

std::vector<Group> groups_of(std::span<const TensorDemand> demands) {
  struct Ranked {
    std::size_t tensor;
    Bucket bucket;
    double gain;
  };
  std::vector<Ranked> ranked;
  for (std::size_t t = 0; t < demands.size(); ++t) {
    const TensorDemand& demand = demands[t];
    if (demand.whole || demand.fixed || demand.row_bytes == 0) continue;
    for (std::size_t s = 0; s < demand.segments.size(); ++s) {
      for (const Bucket& bucket : falling_buckets(demand.segments[s], s)) {
        ranked.push_back(
            {t, bucket, bucket.heat() * demand.rows_per_access / demand.rates[host].bytes_per_second});
      }
    }
  }
  std::ranges::stable_sort(ranked, [](const Ranked& a, const Ranked& b) { return a.gain > b.gain; });
  std::vector<Group> groups;
  for (const Ranked& r : ranked) {
    if (groups.empty() || groups.back().tensor != r.tensor || r.gain < groups.back().gain * (1 - kEqual)) {
      groups.push_back({r.tensor, {}, r.gain});
    }
    groups.back().buckets.push_back(r.bucket);
  }
  return groups;
}

/// Sums over the first x groups, for real x: a group's fraction counts proportionally.
class Cumulated {
 public:
  void push(double value) { sums_.push_back(sums_.back() + value); }
  double up_to(double x) const {
    const auto i = std::min(static_cast<std::size_t>(x), sums_.size() - 1);
    if (i + 1 == sums_.size()) return sums_[i];
    return sums_[i] + (x - static_cast<double>(i)) * (sums_[i + 1] - sums_[i]);
  }
  /// The largest x whose sum is at most `sum`.
  double inverse(double sum) const {
    const auto above = std::ranges::upper_bound(sums_, sum);
    if (above == sums_.end()) return static_cast<double>(sums_.size() - 1);
    const auto i = at(above - sums_.begin()) - 1;
    return static_cast<double>(i) + (sum - sums_[i]) / (sums_[i + 1] - sums_[i]);
  }
  double between(double first, double end) const { return up_to(end) - up_to(first); }
  double total() const { return sums_.back(); }

 private:
  std::vector<double> sums_ = {0};
};

/// Where a level's groups end and those of the next begin. Groups that cannot lie in their level stay on the
/// host.
struct Cut {
  tensor::ByStratum<double> end;

  double first(tensor::Stratum s) const {
    return s == replicated ? 0 : end[static_cast<tensor::Stratum>(static_cast<int>(s) - 1)];
  }
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
        groups_(groups_of(demands)),
        num_gpus_(limits.num_gpus),
        host_bytes_(static_cast<double>(limits.host_bytes)) {
    std::vector<bool> stripes(demands.size(), false);
    for (const Group& group : groups_) {
      const TensorDemand& demand = demands[group.tensor];
      const auto row_bytes = static_cast<double>(demand.row_bytes);
      double bytes = 0, read = 0;
      for (const Bucket& bucket : group.buckets) {
        bytes += static_cast<double>(bucket.rows) * row_bytes;
        read += demand.bytes_read(bucket.accesses);
      }
      for (const tensor::Stratum s : kStrata) {
        const bool can = can_use(s, demand, num_gpus_);
        sums_[s].bytes.push(can ? bytes : 0);
        sums_[s].host_seconds.push(can ? seconds_of_path(host, read, demand.rates, num_gpus_) : 0);
        sums_[s].seconds.push(can && s != replicated ? seconds_of_path(s, read, demand.rates, num_gpus_) : 0);
      }
      if (can_use(striped, demand, num_gpus_) && !stripes[group.tensor]) {
        stripes[group.tensor] = true;
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
    if (sums_[striped].bytes.total() == 0) return found;
    for (int i = kShares - 1; i >= 0; --i) consider(static_cast<double>(i) / kShares);
    consider(greatest_share(
        [&](const Cut& cut) {
          const PathSeconds s = seconds_of_cut(cut, base);
          return s[host] < s[striped];
        },
        budget));
    consider(greatest_share([&](const Cut& cut) { return host_bytes_of(cut) <= host_bytes_; }, budget));
    return found;
  }

  /// Adds the rows of the cut to placements whose rows all lie on the host.
  void apply(const Cut& cut, std::vector<tensor::Placement>& placements) const {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const TensorDemand& demand = demands_[groups_[i].tensor];
      for (const Bucket& bucket : groups_[i].buckets) {
        tensor::Segment& segment = placements[groups_[i].tensor].segments[bucket.segment];
        double above = 0;
        Count rows_above = 0;
        for (const tensor::Stratum s : kStrata) {
          double end = above;
          if (can_use(s, demand, num_gpus_))
            end = std::clamp(cut.end[s] - static_cast<double>(i), above, 1.0);
          if (end > above) {
            const double rows = end * static_cast<double>(bucket.rows);
            // Rounded up, because one row too many on the host can cost more than one too many on a peer.
            const auto rows_end = static_cast<Count>(s == striped ? std::ceil(rows) : rows);
            segment[s] += std::max(Count{0}, rows_end - rows_above);
            rows_above = std::max(rows_above, rows_end);
          }
          above = end;
        }
        segment[host] -= rows_above;
      }
    }
  }

 private:
  Cut cut_at(double budget, double share) const {
    const auto num_groups = static_cast<double>(groups_.size());
    Cut cut{{{host, num_groups}, {storage, num_groups}}};
    fill(cut, replicated, budget * share);
    const double on_gpus = sums_[replicated].bytes.up_to(cut.end[replicated]);
    fill(cut, striped, std::max(0.0, budget - on_gpus - stripe_slack_) * num_gpus_);
    const Cumulated& below = sums_[storage].bytes;
    const double excess = host_bytes_of(cut) - host_bytes_ * (1 - kEqual);
    if (below.total() > 0 && excess > 0)
      cut.end[host] = std::max(cut.end[striped], below.inverse(std::max(0.0, below.total() - excess)));
    return cut;
  }

  /// Gives a level the hottest groups that are left, as many as fit into `bytes`.
  void fill(Cut& cut, tensor::Stratum s, double bytes) const {
    const double first = cut.first(s);
    const Cumulated& sums = sums_[s].bytes;
    cut.end[s] =
        bytes > 0 && sums.total() > 0 ? std::max(first, sums.inverse(sums.up_to(first) + bytes)) : first;
  }

  PathSeconds seconds_of_cut(const Cut& cut, const PathSeconds& base) const {
    PathSeconds seconds = base;
    double on_host = sums_[host].seconds.total();
    for (const tensor::Stratum s : kStrata) {
      if (s == host) continue;
      seconds[s] += sums_[s].seconds.between(cut.first(s), cut.end[s]);
      on_host -= sums_[s].host_seconds.between(cut.first(s), cut.end[s]);
    }
    seconds[host] += on_host;
    return seconds;
  }

  double host_bytes_of(const Cut& cut) const {
    double bytes = sums_[host].bytes.total();
    for (const tensor::Stratum s : kStrata)
      if (s != host) bytes -= sums_[s].bytes.between(cut.first(s), cut.end[s]);
    return bytes;
  }

  Found score_of(const Cut& cut, const PathSeconds& base) const {
    const PathSeconds s = seconds_of_cut(cut, base);
    const double traffic = std::accumulate(s.begin() + 1, s.end(), 0.0);
    return {cut, {std::max(0.0, host_bytes_of(cut) - host_bytes_), s.batch(), traffic}};
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
  std::vector<Group> groups_;
  int num_gpus_;
  double host_bytes_;  ///< room for rows
  struct Sums {
    Cumulated bytes, seconds, host_seconds;  ///< seconds in this level, or on the host instead
  };
  tensor::ByStratum<Sums> sums_;  ///< of the groups that can lie in a level
  double stripe_slack_ = 0;       ///< bytes per GPU by which whole rows and blocks may exceed their share
};

std::vector<tensor::Placement> all_on_host(std::span<const TensorDemand> demands, const PlanLimits& limits) {
  std::vector<tensor::Placement> placements;
  for (const TensorDemand& demand : demands) {
    tensor::Placement placement{.segments = {}, .stripe_rows = limits.stripe_rows};
    for (const HeatCurve& curve : demand.segments) placement.segments.push_back({{host, curve.rows()}});
    placements.push_back(demand.fixed.value_or(std::move(placement)));
  }
  return placements;
}

void replicate(tensor::Placement& placement) {
  for (tensor::Segment& s : placement.segments) s = {{replicated, s.rows()}};
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

double PathSeconds::batch() const { return *std::max_element(begin(), end()); }

namespace {

/// Placements whose rows fit into `budget` on GPUs, in addition to those that are fixed.
std::vector<tensor::Placement> place_rows(std::span<const TensorDemand> demands, const PlanLimits& limits,
                                          double budget) {
  std::vector<tensor::Placement> placements = all_on_host(demands, limits);
  const Search search(demands, limits);
  const std::vector<std::size_t> whole = undecided_whole(demands);

  PathSeconds fixed;  // of fixed placements; and of the GPU's own memory, which no choice changes
  for (std::size_t t = 0; t < demands.size(); ++t) {
    const PathSeconds s = estimate(demands.subspan(t, 1), {placements[t]}, limits).seconds;
    for (const tensor::Stratum stratum : kStrata)
      if (stratum == replicated || demands[t].fixed) fixed[stratum] += s[stratum];
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
        base[host] += seconds_of(demand.bytes_read(demand.accesses()), demand.rates[host].bytes_per_second);
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
  const bool below_host = std::ranges::any_of(
      demands, [](const TensorDemand& demand) { return demand.rates[storage].bytes_per_second > 0; });
  if (limits.num_gpus == 0 && !below_host) return estimate(demands, all_on_host(demands, limits), limits);
  const std::int64_t budget = limits.num_gpus > 0 ? limits.gpu_bytes - fixed_bytes(demands, limits) : 0;
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
    tensor::ByStratum<double> accesses;
    for (std::size_t s = 0; s < demand.segments.size(); ++s) {
      Count end = 0;
      double above = 0;
      for (const tensor::Stratum stratum : kStrata) {
        end += placements[t].segments[s][stratum];
        const double until_end = demand.segments[s].accesses_below(end);
        accesses[stratum] += until_end - above;
        above = until_end;
      }
    }
    plan.gpu_bytes += gpu_bytes_of(demand, placements[t], limits.num_gpus);
    TensorPlan tensor{demand.name, demand.row_bytes, std::move(placements[t]), {}};
    const tensor::Segment rows = tensor.placement.total();
    const double all = demand.accesses(), far = peer_fraction(limits.num_gpus);
    for (const tensor::Stratum s : kStrata) {
      const double bytes = demand.bytes_read(accesses[s]);
      plan.seconds[s] +=
          seconds_of_path(s, s == replicated ? demand.bytes_read(all) : bytes, rates, limits.num_gpus) +
          (accesses[s] > 0 ? rates[s].start_seconds : 0);
      if (rows[s] == 0) continue;
      double rate = rates[s].bytes_per_second;
      if (s == striped) {
        const double local = rates[replicated].bytes_per_second;
        rate = far > 0 ? std::min(local, rate / far) : local;
      }
      tensor.strata.push_back({s, rows[s], all > 0 ? accesses[s] / all : 0, rate, seconds_of(bytes, rate)});
    }
    plan.tensors.push_back(std::move(tensor));
  }
  return plan;
}

}  // namespace strata::plan
