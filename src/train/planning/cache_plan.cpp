// SPDX-License-Identifier: Apache-2.0
#include "planning/cache_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace strata::train {
namespace {

/// What the hottest of all rows of other machines answer, if so many are kept.
double cached_share(const BatchProfile& profile, double kept, double all) {
  if (kept <= 0 || all <= 0) return 0;
  const double level = std::max(0.0, -std::log2(std::min(1.0, kept / all)));
  const auto low = std::min<std::size_t>(static_cast<std::size_t>(level), BatchProfile::kLevels - 1),
             high = std::min<std::size_t>(low + 1, BatchProfile::kLevels - 1);
  const double share = level - static_cast<double>(low);
  return profile.remote_heat[low] * (1 - share) + profile.remote_heat[high] * share;
}

double id_bytes(const graph::Manifest& manifest) {
  return manifest.book.num_nodes() > std::numeric_limits<std::int32_t>::max() ? sizeof(std::int64_t)
                                                                              : sizeof(std::int32_t);
}

double seconds_per(double bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? bytes / bytes_per_second : 0;
}

}  // namespace

double mean_list_bytes(const graph::Manifest& manifest) {
  const double degree =
      static_cast<double>(manifest.num_edges) / static_cast<double>(manifest.book.num_nodes());
  constexpr double kOffset = sizeof(Count), kIndex = 16;
  return kOffset + kIndex + (1 + degree) * id_bytes(manifest);
}

std::int64_t sent_row_bytes(const TrainConfig& config, const graph::Manifest& manifest) {
  if (manifest.feature_code || config.feature_format != store::FeatureFormat::stored)
    return store::feature_row_bytes(manifest, config.feature_format);
  const bool narrow = config.row_exchange_precision == RowPrecision::bf16;
  return manifest.feature_cols * static_cast<std::int64_t>(narrow ? sizeof(std::uint16_t) : sizeof(float));
}

CacheRates estimated_cache_rates(const TrainConfig& config, const Cluster& cluster) {
  constexpr double kFindOfCore = 40e-9, kFindOfGpu = 0.25e-9;  // the GPU reads three numbers
  constexpr double kPeer = 4.3e11, kHost = 4.9e10;             // of an H200: benchmarks/gather
  const auto path = [&](Transport transport) -> CachePath {
    const bool on_devices = cluster.has_gpus() && transport != Transport::mpi;
    return {.on_devices = on_devices,
            .bytes_per_second = cluster.link_of_rank().bytes_per_second,
            .find_seconds = on_devices ? kFindOfGpu : kFindOfCore};
  };
  return {.rows = path(config.row_exchange),
          .lists = path(config.neighbor_exchange),
          .near = cluster.has_gpus() ? kPeer : 0,
          .far = cluster.has_gpus() ? kHost : 0};
}

store::CacheDecision decide_rows(const CacheTask& task) {
  const auto sent =
      static_cast<double>(sizeof(NodeId)) + static_cast<double>(sent_row_bytes(task.config, task.manifest));
  const auto bytes = static_cast<double>(store::feature_row_bytes(task.manifest, task.config.feature_format));
  const double rows = task.profile.remote_inputs;
  const placement::RemoteReads reads{.rows = rows,
                                     .ask_seconds = seconds_per(sent, task.rates.rows.bytes_per_second),
                                     .find_seconds = task.rates.rows.find_seconds};
  const double most = std::min(task.others, static_cast<double>(task.room.row_bytes) / bytes);
  const double near = std::min(most, static_cast<double>(task.room.near_bytes) / bytes);
  std::vector<placement::CacheOption> options(1);
  const auto answered_by = [&](double kept) { return rows * cached_share(task.profile, kept, task.others); };
  const auto add = [&](double kept) {
    const double answered = answered_by(kept), answered_near = answered_by(std::min(kept, near));
    options.push_back(
        {.kept = static_cast<Count>(kept),
         .answered = answered,
         .read_seconds = std::max(seconds_per(answered_near * bytes, task.rates.near),
                                  seconds_per((answered - answered_near) * bytes, task.rates.far))});
  };
  if (near >= 1) add(near);
  if (most >= 1 && most > near) add(most);
  return store::decide("feature rows", reads, options);
}

store::CacheDecision decide_lists(const CacheTask& task) {
  const double id = id_bytes(task.manifest);
  double nodes = 0, picks = 0;
  for (std::size_t hop = 0; hop < task.profile.hops.size(); ++hop) {
    const BatchProfile::Hop& h = task.profile.hops[hop];
    nodes += h.remote_nodes;
    // From GPU to GPU, answers have room for all of a fanout.
    picks +=
        task.rates.lists.on_devices ? h.remote_nodes * std::max(0, task.config.fanouts[hop]) : h.remote_picks;
  }
  const double sent = id + sizeof(std::int32_t) + id * picks / std::max(1.0, nodes);
  const placement::RemoteReads reads{.rows = nodes,
                                     .ask_seconds = seconds_per(sent, task.rates.lists.bytes_per_second),
                                     .find_seconds = task.rates.lists.find_seconds};
  const double most =
      std::min(task.others, static_cast<double>(task.room.list_bytes) / mean_list_bytes(task.manifest));
  std::vector<placement::CacheOption> options(1);
  if (most >= 1)
    options.push_back({.kept = static_cast<Count>(most),
                       .answered = nodes * cached_share(task.profile, most, task.others)});
  return store::decide("neighbor lists", reads, options);
}

}  // namespace strata::train
