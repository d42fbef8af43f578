// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "strata/placement/keep_plan.hpp"
#include "strata/store/cache_decision.hpp"
#include "strata/store/load_options.hpp"

/// How much of a machine's memory rows and neighbor lists of other machines' nodes get.
namespace strata::store {

/// What a machine may keep of other machines' nodes.
struct HaloBudget {
  std::int64_t bytes = 0;  ///< of host memory, for rows and lists together
  bool rows = true, lists = true;
  std::int64_t row_bytes = 0;  ///< of a feature row
  std::int64_t gpu_bytes = 0;  ///< per GPU, for all of the graph; each GPU has a copy of kept lists
  int num_gpus = 0;
};

/// What a batch reads of other machines' nodes, and what there is to keep.
struct HaloOffer {
  double rows = 0, visits = 0;  ///< that a batch reads: rows, and lists
  double mean_picks = 0;        ///< of a visit
  /// Of other machines' nodes; saved_seconds are those that asking takes.
  std::vector<placement::KeepGroup> row_groups = {}, list_groups = {};
  /// What else wants the memory of GPUs, in bytes per GPU: the machine's own rows and lists.
  std::vector<placement::KeepGroup> own_groups = {};
};

/// What is kept, and what a batch has of it.
struct HaloAmounts {
  struct Kept {
    Count count = 0;
    std::int64_t bytes = 0;
    double answered = 0;       ///< of those that a batch reads
    double saved_seconds = 0;  ///< look-ups not subtracted
  };
  Kept rows, lists;
  double saved_seconds = 0;  ///< look-ups subtracted, and what own rows and lists lose
};

/// The best use of the budget if only `kinds` of other machines' nodes are kept. On GPUs, all four kinds
/// compete for their memory, and rows that do not win stay in host memory where that pays.
HaloAmounts best_amounts(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                         placement::KeepKinds kinds);

/// All of the budget, whether or not it pays. GPUs have copies of the lists, which get a sixteenth of a GPU
/// at most.
HaloAmounts fill_budget(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs);

/// Sums numbers over all machines, each of which counts once.
using SumOverMachines = std::function<void(std::span<double>)>;

struct HaloPlan {
  HaloAmounts amounts;                        ///< of this machine
  std::vector<CacheDecision> decisions = {};  ///< of rows, then of lists, on average over the machines
};

/// Keeps what makes batches of all machines together fastest: a kind that does not pay is kept by none. What
/// saves less than a fiftieth of the time that asking takes is not worth its memory. Collective as `sum` is.
HaloPlan plan_what_pays(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                        const SumOverMachines& sum);

}  // namespace strata::store
