// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/cache_plan.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "strata/graph/part_file.hpp"

namespace strata::plan {
namespace {

double seconds_per(double bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? bytes / bytes_per_second : 0;
}

/// What is kept of the nodes, and what a batch reads of it.
struct Wanted {
  Keepable kind{};
  double bytes = 0;    ///< of one
  double reads = 0;    ///< of all
  double seconds = 0;  ///< that asking for one takes
};

/// The hottest 2^-15 of the nodes, the further ones up to 2^-14, and so on.
std::vector<KeepGroup> groups_of(const BatchProfile& profile, double others, const Wanted& wanted) {
  std::vector<KeepGroup> groups;
  double nodes = 0, share = 0;
  for (int level = BatchProfile::kLevels - 1; level >= 0; --level) {
    const double below = std::floor(std::ldexp(others, -level));
    if (below == nodes) continue;  // less than a node
    const double share_below = profile.remote_heat[static_cast<std::size_t>(level)];
    groups.push_back({.kind = wanted.kind,
                      .count = static_cast<Count>(below - nodes),
                      .bytes = static_cast<std::int64_t>((below - nodes) * wanted.bytes),
                      .saved_seconds = (share_below - share) * wanted.reads * wanted.seconds});
    nodes = below;
    share = share_below;
  }
  return groups;
}

double mean_list_bytes(const graph::Manifest& manifest, int ranks) {
  const double degree =
      static_cast<double>(manifest.num_edges) / static_cast<double>(manifest.book.num_nodes());
  const std::int64_t id = id_bytes_of(manifest.book.num_nodes());
  return static_cast<double>(kept_list_overhead(id, ranks)) + degree * static_cast<double>(id);
}

}  // namespace

std::int64_t sent_row_bytes(const RunShape& run, const graph::Manifest& manifest) {
  if (manifest.feature_code || run.feature_format != FeatureFormat::stored)
    return feature_row_bytes(manifest, run.feature_format);
  const bool narrow = run.rows_travel_in_bf16;
  return manifest.feature_cols * static_cast<std::int64_t>(narrow ? sizeof(std::uint16_t) : sizeof(float));
}

CacheRates estimated_cache_rates(const Cluster& cluster, bool rows_on_devices, bool lists_on_devices) {
  constexpr double kFindOfCore = 40e-9, kFindOfGpu = 0.25e-9;  // the GPU reads three numbers
  constexpr double kPeer = 4.3e11, kHost = 4.9e10;             // of an H200: benchmarks/gather
  constexpr double kListInHost = 1 / 30e6;  // a GPU translates so many addresses per second
  const auto path = [&](bool on_devices) -> CachePath {
    return {.on_devices = on_devices,
            .bytes_per_second = cluster.link_of_rank().bytes_per_second,
            .find_seconds = on_devices ? kFindOfGpu : kFindOfCore};
  };
  return {.rows = path(rows_on_devices),
          .lists = path(lists_on_devices),
          .near = cluster.has_gpus() ? kPeer : 0,
          .far = cluster.has_gpus() ? kHost : 0,
          .host_list_seconds = cluster.has_gpus() ? kListInHost : 0,
          .striped = cluster.gpus > 1};
}

ExchangeCosts exchange_costs(const RunShape& run, const graph::Manifest& manifest, const CacheRates& rates) {
  const double id = id_bytes_of(manifest.book.num_nodes()), rows = rates.rows.bytes_per_second,
               lists = rates.lists.bytes_per_second;
  const auto row = static_cast<double>(sizeof(NodeId)) + static_cast<double>(sent_row_bytes(run, manifest));
  return {.row_seconds = seconds_per(row, rows),
          .list_seconds = seconds_per(id + sizeof(std::int32_t), lists),
          .pick_seconds = seconds_per(id, lists),
          .whole_fanouts = rates.lists.on_devices,
          .find_row_seconds = rates.rows.find_seconds,
          .find_list_seconds = rates.lists.find_seconds,
          .near = rates.near,
          .far = rates.far,
          .host_list_seconds = rates.host_list_seconds,
          .striped = rates.striped};
}

HaloOffer offer_of(const ExpectedOffer& e) {
  double visits = 0, picks = 0;
  for (std::size_t hop = 0; hop < e.profile.hops.size(); ++hop) {
    const BatchProfile::Hop& h = e.profile.hops[hop];
    visits += h.remote_nodes;
    picks += e.costs.whole_fanouts ? h.remote_nodes * std::max(0, e.run.fanouts[hop]) : h.remote_picks;
  }
  const double mean_picks = picks / std::max(1.0, visits), rows = e.profile.remote_inputs;
  return {.rows = rows,
          .visits = visits,
          .mean_picks = mean_picks,
          .row_groups = groups_of(e.profile, e.others,
                                  {.kind = Keepable::other_rows,
                                   .bytes = static_cast<double>(kept_row_bytes(
                                       feature_row_bytes(e.manifest, e.run.feature_format), e.ranks)),
                                   .reads = rows,
                                   .seconds = e.costs.row_seconds}),
          .list_groups = groups_of(e.profile, e.others,
                                   {.kind = Keepable::other_lists,
                                    .bytes = mean_list_bytes(e.manifest, e.ranks),
                                    .reads = visits,
                                    .seconds = e.costs.list_seconds + mean_picks * e.costs.pick_seconds})};
}

}  // namespace strata::plan
