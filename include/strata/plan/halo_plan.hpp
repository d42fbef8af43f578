// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "strata/plan/graph_shape.hpp"
#include "strata/plan/heat.hpp"
#include "strata/plan/keep_plan.hpp"

/// How much of a machine's memory rows and neighbor lists of other machines' nodes get.
namespace strata::plan {

/// Bytes of host memory that a kept row, and a kept list without its entries, takes on a machine of so many
/// ranks: each has an index of its own, with about 16 bytes per node (store::NodeIndex). A list has an entry
/// of indptr and an original id besides.
constexpr std::int64_t kept_row_bytes(std::int64_t row_bytes, int ranks) { return row_bytes + 16 * ranks; }
constexpr std::int64_t kept_list_overhead(std::int64_t id_bytes, int ranks) {
  return static_cast<std::int64_t>(sizeof(Count)) + id_bytes + 16 * ranks;
}

/// Instead of a number of bytes: a tenth of the memory that is free.
inline constexpr std::int64_t kAutomatic = -1;
constexpr std::int64_t halo_bytes(std::int64_t wanted, std::int64_t free_bytes) {
  return wanted != kAutomatic ? wanted : free_bytes > 0 ? free_bytes / 10 : 0;
}

/// What it takes to ask other machines, and to find and read what is kept of their nodes. The same on all
/// ranks.
struct ExchangeCosts {
  double row_seconds = 0;        ///< to get a feature row: its bytes and those of the request on the link
  double list_seconds = 0;       ///< to get a node's picks, without the picks themselves
  double pick_seconds = 0;       ///< of each of them
  bool whole_fanouts = false;    ///< answers have room for all of a fanout
  double find_row_seconds = 0;   ///< to look for a row among those that are kept
  double find_list_seconds = 0;  ///< to look for a list
  /// Useful bytes per second of kept rows on GPUs and in host memory. 0 on CPUs: rows that are not kept are
  /// read in another machine's memory instead, and this one reads as many for others.
  double near = 0, far = 0;
  double host_list_seconds =
      0;                 ///< what a GPU waits longer for a list in host memory than for one of its own
  bool striped = false;  ///< rows on GPUs are spread over those of the machine
};

/// What a machine may keep of other machines' nodes.
struct HaloBudget {
  std::int64_t bytes = 0;  ///< of host memory, for rows and lists together
  bool rows = true, lists = true;
  std::int64_t row_bytes = 0;  ///< of a feature row
  std::int64_t gpu_bytes = 0;  ///< per GPU, for all of the graph; each GPU has a copy of kept lists
  int num_gpus = 0;
};

/// Has the budget room for all rows and lists of other machines? Then no heat is needed. `num_edges` of the
/// whole graph.
bool holds_all(const HaloBudget& budget, const RegionSizes& sizes, Count num_edges, int ranks);

/// The most lists that the budget can hold.
Count most_lists(const HaloBudget& budget, const RegionSizes& sizes, int ranks);

/// What a batch reads of other machines' nodes, and what there is to keep.
struct HaloOffer {
  double rows = 0, visits = 0;  ///< that a batch reads: rows, and lists
  double mean_picks = 0;        ///< of a visit
  /// Of other machines' nodes; saved_seconds are those that asking takes.
  std::vector<KeepGroup> row_groups = {}, list_groups = {};
  /// What else wants the memory of GPUs, in bytes per GPU: the machine's own rows and lists.
  std::vector<KeepGroup> own_groups = {};
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
                         KeepKinds kinds);

/// All of the budget, whether or not it pays. GPUs have copies of the lists, which get a sixteenth of a GPU
/// at most.
HaloAmounts fill_budget(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs);

struct OwnSizes {
  std::int64_t row_bytes = 0, entry_bytes = 0;  ///< of a feature row, of an entry of a neighbor list
  int stripes = 1;                              ///< GPUs that share what is kept
};

/// What a batch saves by this machine's own rows and lists on GPUs instead of in host memory: the segments of
/// `accesses`, piece by piece, in bytes per GPU.
std::vector<KeepGroup> own_groups(const BatchAccesses& accesses, const OwnSizes& sizes,
                                  const ExchangeCosts& costs);

/// Sums numbers over all machines, each of which counts once.
using SumOverMachines = std::function<void(std::span<double>)>;

/// What the planner decided to keep of other machines' nodes, and why. Seconds and rows are those of a batch
/// of one rank, expected, on average over all machines; the same on all ranks.
///
/// Of 1,000 rows that take 0.5 us each, a cache with a look-up of 0.05 us that answers 600 takes 200 + 50
/// instead of 500 us; one that answers 80 takes 460 + 50 and does not pay.
struct CacheDecision {
  std::string what;  ///< "feature rows" or "neighbor lists"
  struct Reads {
    double rows = 0;          ///< of other machines, in a batch
    double ask_seconds = 0;   ///< to get one that is not kept: its bytes and those of the request on the link
    double find_seconds = 0;  ///< to look for one among those that are kept, whether it is there or not
  };
  struct Cache {
    Count kept = 0;
    double answered = 0;  ///< of Reads::rows
  };
  Reads reads;
  Cache largest;  ///< what there is memory for beside the other kind
  Cache chosen;   ///< keeps nothing where that does not pay
  double seconds = 0, seconds_without = 0;
};

/// One sentence for people.
std::string sentence(const CacheDecision& decision);

struct HaloPlan {
  HaloAmounts amounts;                        ///< of this machine
  std::vector<CacheDecision> decisions = {};  ///< of rows, then of lists, on average over the machines
};

/// Keeps what makes batches of all machines together fastest: a kind that does not pay is kept by none. What
/// saves less than a fiftieth of the time that asking takes is not worth its memory. Collective as `sum` is.
HaloPlan plan_what_pays(const HaloOffer& offer, const HaloBudget& budget, const ExchangeCosts& costs,
                        const SumOverMachines& sum);

}  // namespace strata::plan
