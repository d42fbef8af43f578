// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "planning/batch_profile.hpp"
#include "planning/cluster.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/plan/halo_plan.hpp"
#include "strata/train/config.hpp"

/// What deciding about other machines' nodes takes: costs of asking, from rates that a run measures and a
/// plan before it estimates, and what a profile of batches lets expect. Pure functions.
namespace strata::train {

/// Of a feature row between machines: in its code, or as --row-exchange-precision says.
std::int64_t sent_row_bytes(const TrainConfig& config, const graph::Manifest& manifest);

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
  double host_list_seconds = 0;  ///< as plan::ExchangeCosts
  bool striped = false;
};

/// Those of the cluster's link, of a GPU such as an H200, and of one CPU core.
CacheRates estimated_cache_rates(const TrainConfig& config, const Cluster& cluster);

plan::ExchangeCosts exchange_costs(const TrainConfig& config, const graph::Manifest& manifest,
                                   const CacheRates& rates);

/// What the profile's batches read of `others` nodes of other machines, by how hot these are in their parts.
struct ExpectedOffer {
  const TrainConfig& config;
  const graph::Manifest& manifest;
  const BatchProfile& profile;
  const plan::ExchangeCosts& costs;
  double others = 0;
  int ranks = 1;  ///< of a machine
};
plan::HaloOffer offer_of(const ExpectedOffer& expected);

}  // namespace strata::train
