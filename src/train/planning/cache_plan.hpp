// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "planning/batch_profile.hpp"
#include "planning/cluster.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/store/cache_decision.hpp"
#include "strata/train/config.hpp"

/// Decides what to keep of other machines' nodes. Pure functions of a profile of batches, of rates that a run
/// measures (and a plan before it estimates), and of memory.
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
};

/// Those of the cluster's link, of a GPU such as an H200, and of one CPU core.
CacheRates estimated_cache_rates(const TrainConfig& config, const Cluster& cluster);

/// Memory of one machine for what others own.
struct CacheRoom {
  std::int64_t row_bytes = 0, list_bytes = 0;
  std::int64_t near_bytes = 0;  ///< of `row_bytes`, those on its GPUs
};

struct CacheTask {
  const TrainConfig& config;
  const graph::Manifest& manifest;
  const BatchProfile& profile;
  CacheRates rates;
  CacheRoom room;
  double others = 0;  ///< nodes of other machines
};

/// Of a list of mean length, with its place, its original id and its entry of the index.
double mean_list_bytes(const graph::Manifest& manifest);

/// Of the rows that fit: none, those that fit the GPUs, or all.
store::CacheDecision decide_rows(const CacheTask& task);
/// None of the lists, or all that fit.
store::CacheDecision decide_lists(const CacheTask& task);

}  // namespace strata::train
