// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/halo_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "strata/util/format.hpp"

namespace strata::plan {
namespace {

constexpr KeepKinds kOwn = set_of(Keepable::own_rows) | set_of(Keepable::own_lists);
constexpr KeepKinds kRows = set_of(Keepable::other_rows), kLists = set_of(Keepable::other_lists);

double seconds_of_list(const HaloOffer& offer, const ExchangeCosts& costs) {
  return costs.list_seconds + costs.pick_seconds * offer.mean_picks;
}

double look_up_rows(const HaloOffer& offer, const ExchangeCosts& costs) {
  return offer.rows * costs.find_row_seconds;
}

double look_up_lists(const HaloOffer& offer, const ExchangeCosts& costs) {
  return offer.visits * costs.find_list_seconds;
}

KeepLimits limits_of(std::int64_t bytes, const HaloOffer& offer, const ExchangeCosts& costs) {
  return {.bytes = bytes, .look_ups = {0, 0, look_up_rows(offer, costs), look_up_lists(offer, costs)}};
}

/// What is left of the time that asking for a row takes when it is read at this rate instead.
double saved_share(const HaloBudget& budget, const ExchangeCosts& costs, double bytes_per_second) {
  if (bytes_per_second <= 0 || costs.row_seconds <= 0) return 1;
  return std::max(0.0, 1 - static_cast<double>(budget.row_bytes) / bytes_per_second / costs.row_seconds);
}

std::vector<KeepGroup> scaled(std::vector<KeepGroup> groups, double share, int stripes) {
  for (KeepGroup& group : groups) {
    group.saved_seconds *= share;
    group.bytes = (group.bytes + stripes - 1) / stripes;
  }
  return groups;
}

void append(std::vector<KeepGroup>& groups, const std::vector<KeepGroup>& more) {
  groups.insert(groups.end(), more.begin(), more.end());
}

HaloAmounts::Kept kept_of(const KeepPlan::Kept& kept, double seconds) {
  return {.count = kept.count,
          .bytes = kept.bytes,
          .answered = seconds > 0 ? kept.saved_seconds / seconds : 0,
          .saved_seconds = kept.saved_seconds};
}

HaloAmounts on_host(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                    KeepKinds kinds) {
  std::vector<KeepGroup> groups = offer.row_groups;
  append(groups, offer.list_groups);
  const KeepPlan plan = keep(groups, limits_of(budget.bytes, offer, costs), kinds);
  return {.rows = kept_of(plan.of(Keepable::other_rows), costs.row_seconds),
          .lists = kept_of(plan.of(Keepable::other_lists), seconds_of_list(offer, costs)),
          .saved_seconds = plan.saved_seconds};
}

/// The hottest rows that fit, with the time that they save at this share.
KeepPlan::Kept hottest_rows(const HaloOffer& offer, std::int64_t bytes, double share) {
  return keep(scaled(offer.row_groups, share, 1), {.bytes = bytes}, kRows).of(Keepable::other_rows);
}

HaloAmounts on_gpus(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                    KeepKinds kinds) {
  const int stripes = costs.striped ? budget.num_gpus : 1;
  const double near = saved_share(budget, costs, costs.near), far = saved_share(budget, costs, costs.far);
  std::vector<KeepGroup> groups = scaled(offer.row_groups, near, stripes);
  append(groups, offer.list_groups);
  append(groups, offer.own_groups);
  const KeepLimits limits = limits_of(budget.gpu_bytes, offer, costs);
  const KeepPlan plan = keep(groups, limits, kinds | kOwn), own = keep(groups, limits, kOwn);

  HaloAmounts amounts{.rows = {},
                      .lists = kept_of(plan.of(Keepable::other_lists), seconds_of_list(offer, costs))};
  amounts.lists.bytes = std::min(amounts.lists.bytes, budget.bytes);
  amounts.saved_seconds = plan.saved_seconds - own.saved_seconds;
  if ((kinds & kRows) == 0) return amounts;
  const std::int64_t room = budget.bytes - amounts.lists.bytes,
                     near_bytes = std::min(room, plan.of(Keepable::other_rows).bytes * stripes);
  const std::int64_t bytes = far > 0 ? room : near_bytes;
  const double behind =
      hottest_rows(offer, bytes, far).saved_seconds - hottest_rows(offer, near_bytes, far).saved_seconds;
  amounts.rows = kept_of(hottest_rows(offer, bytes, 1), costs.row_seconds);
  amounts.rows.saved_seconds = plan.of(Keepable::other_rows).saved_seconds + behind;
  amounts.saved_seconds += behind;
  if (plan.of(Keepable::other_rows).count == 0 && amounts.rows.count > 0)
    amounts.saved_seconds -= look_up_rows(offer, costs);
  return amounts;
}

/// Numbers of one kind, of which machines take the mean.
struct Figures {
  enum Index : std::uint8_t { asked, ask_seconds, largest, largest_answered, chosen, answered, saved, count };
  std::array<double, count> values{};
  double operator[](Index index) const { return values[index]; }
};

Figures figures_of(double asked, double ask_seconds, const HaloAmounts::Kept& largest,
                   const HaloAmounts::Kept& chosen) {
  return {{asked, ask_seconds, static_cast<double>(largest.count), largest.answered,
           static_cast<double>(chosen.count), chosen.answered, chosen.saved_seconds}};
}

CacheDecision decision_of(const char* what, const Figures& f, double find_seconds) {
  CacheDecision decision{.what = what,
                         .reads = {.rows = f[Figures::asked],
                                   .ask_seconds = f[Figures::ask_seconds],
                                   .find_seconds = find_seconds},
                         .largest = {static_cast<Count>(f[Figures::largest]), f[Figures::largest_answered]},
                         .chosen = {static_cast<Count>(f[Figures::chosen]), f[Figures::answered]}};
  decision.seconds_without = decision.reads.rows * decision.reads.ask_seconds;
  decision.seconds = decision.seconds_without - f[Figures::saved];
  if (decision.chosen.kept > 0) decision.seconds += decision.reads.rows * find_seconds;
  return decision;
}

/// The means over the machines.
std::array<Figures, 2> means_of(const std::array<Figures, 2>& mine, const SumOverMachines& sum) {
  std::array<double, 2 * Figures::count + 1> sums{};
  std::ranges::copy(mine[0].values, sums.begin());
  std::ranges::copy(mine[1].values, sums.begin() + Figures::count);
  sums.back() = 1;
  sum(sums);
  std::array<Figures, 2> means;
  for (std::size_t i = 0; i < Figures::count; ++i) {
    means[0].values[i] = sums[i] / sums.back();
    means[1].values[i] = sums[Figures::count + i] / sums.back();
  }
  return means;
}

/// What all rows of a table have in common.
struct Row {
  Keepable kind{};
  std::int64_t bytes = 0;
  double saved_seconds = 0;  ///< by an access
  int stripes = 1;
};

void append_groups(const HeatCurve& curve, const Row& row, std::vector<KeepGroup>& groups) {
  HeatCurve::Point before;
  for (const HeatCurve::Point& point : curve.points) {
    const Count count = point.rows - before.rows;
    groups.push_back({.kind = row.kind,
                      .count = count,
                      .bytes = (count * row.bytes + row.stripes - 1) / row.stripes,
                      .saved_seconds = (point.accesses - before.accesses) * row.saved_seconds});
    before = point;
  }
}

/// Of what is done millions of times per second.
std::string short_time(double seconds) {
  return seconds < 1e-6 ? fmt::format("{:.3g} ns", 1e9 * seconds) : fmt::format("{:.3g} us", 1e6 * seconds);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

bool holds_all(const HaloBudget& budget, const RegionSizes& sizes, Count num_edges, int ranks) {
  const Count others = sizes.num_nodes - sizes.num_local,
              edges = sizes.replicated ? 0 : num_edges - sizes.local_edges;
  std::int64_t bytes = budget.rows ? others * kept_row_bytes(budget.row_bytes, ranks) : 0;
  if (budget.lists)
    bytes += others * kept_list_overhead(sizes.id_bytes(), ranks) + edges * sizes.edge_bytes();
  return bytes <= budget.bytes;
}

Count most_lists(const HaloBudget& budget, const RegionSizes& sizes, int ranks) {
  if (!budget.lists) return 0;
  return std::min<Count>(budget.bytes / kept_list_overhead(sizes.id_bytes(), ranks),
                         sizes.num_nodes - sizes.num_local);
}

HaloAmounts best_amounts(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                         KeepKinds kinds) {
  if (!budget.rows) kinds &= ~kRows;
  if (!budget.lists) kinds &= ~kLists;
  return budget.num_gpus > 0 ? on_gpus(offer, budget, costs, kinds) : on_host(offer, budget, costs, kinds);
}

HaloAmounts fill_budget(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs) {
  constexpr std::int64_t kShareOfGpu = 16;
  HaloBudget in_host = budget;
  in_host.num_gpus = 0;
  HaloAmounts amounts = best_amounts(offer, in_host, costs, kKeepAll);
  const std::int64_t most = budget.gpu_bytes / kShareOfGpu;
  if (budget.num_gpus == 0 || amounts.lists.bytes <= most) return amounts;
  HaloBudget lists_only = in_host, rows_only = in_host;
  lists_only.bytes = most;
  rows_only.bytes = budget.bytes - most;
  amounts.lists = best_amounts(offer, lists_only, costs, kLists).lists;
  amounts.rows = best_amounts(offer, rows_only, costs, kRows).rows;
  return amounts;
}

HaloPlan plan_what_pays(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                        const SumOverMachines& sum) {
  constexpr double kWorthwhile = 0.02;
  const double list_seconds = seconds_of_list(offer, costs);
  std::array<double, kKeepSets + 1> sums{};
  for (const KeepKinds kinds : {kRows, kLists, kRows | kLists})
    sums[kinds] = best_amounts(offer, budget, costs, kinds).saved_seconds;
  sums.back() = offer.rows * costs.row_seconds + offer.visits * list_seconds;
  sum(sums);
  const KeepKinds kinds = best_kinds(std::span(sums).first<kKeepSets>(), kWorthwhile * sums.back());

  HaloPlan plan{.amounts = best_amounts(offer, budget, costs, kinds)};
  ExchangeCosts without_look_ups = costs;
  without_look_ups.find_row_seconds = without_look_ups.find_list_seconds = 0;
  const HaloAmounts largest = best_amounts(offer, budget, without_look_ups, kRows | kLists);
  const auto means = means_of({figures_of(offer.rows, costs.row_seconds, largest.rows, plan.amounts.rows),
                               figures_of(offer.visits, list_seconds, largest.lists, plan.amounts.lists)},
                              sum);
  if (budget.rows) plan.decisions.push_back(decision_of("feature rows", means[0], costs.find_row_seconds));
  if (budget.lists)
    plan.decisions.push_back(decision_of("neighbor lists", means[1], costs.find_list_seconds));
  return plan;
}

std::vector<KeepGroup> own_groups(const BatchAccesses& accesses, const OwnSizes& sizes,
                                  const ExchangeCosts& costs) {
  std::vector<KeepGroup> groups;
  if (costs.near <= 0 || costs.far <= 0) return groups;
  const Row row{.kind = Keepable::own_rows,
                .bytes = sizes.row_bytes,
                .saved_seconds = static_cast<double>(sizes.row_bytes) * (1 / costs.far - 1 / costs.near),
                .stripes = sizes.stripes};
  const Row entry{.kind = Keepable::own_lists,
                  .bytes = sizes.entry_bytes,
                  .saved_seconds = costs.host_list_seconds,
                  .stripes = sizes.stripes};
  for (const HeatCurve& curve : accesses.features) append_groups(curve, row, groups);
  for (const HeatCurve& curve : accesses.list_visits) append_groups(curve, entry, groups);
  return groups;
}

std::string sentence(const CacheDecision& d) {
  const std::string asks = fmt::format("asking for one takes {} and looking for it {}",
                                       short_time(d.reads.ask_seconds), short_time(d.reads.find_seconds));
  if (d.chosen.kept == 0) {
    return fmt::format(
        "no cache of other machines' {}: one of {} would answer {:.0f} % of what batches ask for, which does "
        "not pay where {}",
        d.what, format_count(d.largest.kept), percent(d.largest.answered, d.reads.rows), asks);
  }
  return fmt::format(
      "a cache of {} of other machines' {} answers {:.0f} % of what batches ask for: {}, so that reads of a "
      "batch should take {} instead of {}",
      format_count(d.chosen.kept), d.what, percent(d.chosen.answered, d.reads.rows), asks,
      format_seconds(d.seconds), format_seconds(d.seconds_without));
}

}  // namespace strata::plan
