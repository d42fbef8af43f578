// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/graph/part_file.hpp"
#include "strata/plan/cluster.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/plan/run_shape.hpp"

/// What deciding about other machines' nodes takes: costs of asking, from rates that a run measures and a
/// plan before it estimates, and what a profile of batches lets expect. Pure functions.
namespace strata::plan {

/// Of a feature row between machines: in its code, or or rounded.
std::int64_t sent_row_bytes(const RunShape& run, const graph::Manifest& manifest);

/// What batches do with rows, or with lists, that other machines own.
struct CachePath {
  bool on_devices = false;      ///< they travel from GPU to GPU, and a GPU looks for those that are kept
  double bytes_per_second = 0;  ///< of the link, per rank
  double find_seconds = 0;      ///< to look for one node
};

struct CacheRates {
  CachePath rows = {}, lists = {};
  /// Useful bytes per second of kept rows, on GPUs of the machine and in its host memory. 0 on CPUs: rows
  /// that are not kept are read in another machine's memory instead, and this one reads as many for others.
  double near = 0, far = 0;
  double host_list_seconds = 0;  ///< as ExchangeCosts
  bool striped = false;
};

/// Those of the cluster's link, of a GPU such as an H200, and of one CPU core. On devices: whether rows and
/// lists travel from GPU to GPU.
CacheRates estimated_cache_rates(const Cluster& cluster, bool rows_on_devices, bool lists_on_devices);

ExchangeCosts exchange_costs(const RunShape& run, const graph::Manifest& manifest, const CacheRates& rates);

/// What the profile's batches read of `others` nodes of other machines, by how hot these are in their parts.
struct ExpectedOffer {
  const RunShape& run;
  const graph::Manifest& manifest;
  const BatchProfile& profile;
  const ExchangeCosts& costs;
  double others = 0;
  int ranks = 1;  ///< of a machine
};
HaloOffer offer_of(const ExpectedOffer& expected);

}  // namespace strata::plan
