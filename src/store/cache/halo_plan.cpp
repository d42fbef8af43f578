// SPDX-License-Identifier: Apache-2.0
#include "strata/store/halo_plan.hpp"

#include <algorithm>
#include <array>

namespace strata::store {
namespace {

using placement::Keepable;
using placement::KeepGroup;
using placement::KeepKinds;
using placement::KeepLimits;
using placement::KeepPlan;

constexpr KeepKinds kOwn = placement::set_of(Keepable::own_rows) | placement::set_of(Keepable::own_lists);
constexpr KeepKinds kRows = placement::set_of(Keepable::other_rows),
                    kLists = placement::set_of(Keepable::other_lists);

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
  const KeepPlan plan = placement::keep(groups, limits_of(budget.bytes, offer, costs), kinds);
  return {.rows = kept_of(plan.of(Keepable::other_rows), costs.row_seconds),
          .lists = kept_of(plan.of(Keepable::other_lists), seconds_of_list(offer, costs)),
          .saved_seconds = plan.saved_seconds};
}

/// The hottest rows that fit, with the time that they save at this share.
KeepPlan::Kept hottest_rows(const HaloOffer& offer, std::int64_t bytes, double share) {
  return placement::keep(scaled(offer.row_groups, share, 1), {.bytes = bytes}, kRows)
      .of(Keepable::other_rows);
}

HaloAmounts on_gpus(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                    KeepKinds kinds) {
  const int stripes = costs.striped ? budget.num_gpus : 1;
  const double near = saved_share(budget, costs, costs.near), far = saved_share(budget, costs, costs.far);
  std::vector<KeepGroup> groups = scaled(offer.row_groups, near, stripes);
  append(groups, offer.list_groups);
  append(groups, offer.own_groups);
  const KeepLimits limits = limits_of(budget.gpu_bytes, offer, costs);
  const KeepPlan plan = placement::keep(groups, limits, kinds | kOwn),
                 own = placement::keep(groups, limits, kOwn);

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

}  // namespace

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
  HaloAmounts amounts = best_amounts(offer, in_host, costs, placement::kKeepAll);
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
  std::array<double, placement::kKeepSets + 1> sums{};
  for (const KeepKinds kinds : {kRows, kLists, kRows | kLists})
    sums[kinds] = best_amounts(offer, budget, costs, kinds).saved_seconds;
  sums.back() = offer.rows * costs.row_seconds + offer.visits * list_seconds;
  sum(sums);
  const KeepKinds kinds =
      placement::best_kinds(std::span(sums).first<placement::kKeepSets>(), kWorthwhile * sums.back());

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

}  // namespace strata::store
