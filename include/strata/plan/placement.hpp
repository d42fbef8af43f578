// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/tensor/path_rates.hpp"
#include "strata/tensor/placement.hpp"
#include "strata/util/types.hpp"

/// Decides which rows of a machine's tensors lie in which stratum, so that a batch takes the least time. Pure
/// functions.
namespace strata::plan {

/// How often a batch reads the first rows of one segment, for every prefix of its rows. The curve is right
/// whether or not the rows are ordered by heat.
struct HeatCurve {
  struct Point {
    Count rows = 0;       ///< the first `rows` rows ...
    double accesses = 0;  ///< ... are read so often in a batch
  };
  /// Rows and accesses ascend, and the last point covers the segment. No points: an empty segment.
  std::vector<Point> points;

  static HeatCurve flat(Count rows, double accesses) { return {{{rows, accesses}}}; }

  Count rows() const { return points.empty() ? 0 : points.back().rows; }
  double accesses() const { return points.empty() ? 0 : points.back().accesses; }
  /// Accesses to the first `count` rows; linear between points.
  double accesses_below(Count count) const;
};

/// What a batch on one GPU reads of a tensor.
struct TensorDemand {
  std::string name;
  std::int64_t row_bytes = 0;
  double rows_per_access = 1;            ///< rows that are read together, on average
  std::vector<HeatCurve> segments = {};  ///< one per hosted part
  tensor::PathRates rates = {};          ///< for rows of row_bytes; replicated and host are positive
  bool whole = false;                    ///< the plan replicates either all rows or none
  bool divisible = false;                ///< a person may divide it even if it is whole
  std::int64_t division_bytes = 0;  ///< extra bytes per GPU, for each stratum there that has only some rows
  std::optional<tensor::Placement> fixed = {};  ///< chosen by a person; the planner keeps it

  Count rows() const;
  double accesses() const;
  double bytes_read(double accesses) const {
    return accesses * rows_per_access * static_cast<double>(row_bytes);
  }
};

struct PlanLimits {
  std::int64_t gpu_bytes = 0;  ///< per GPU, for all tensors together
  /// For the host rows of tensors that can be divided. What exceeds it lies below, where there is a rate for
  /// that. Else a plan keeps to this limit if it can, at the cost of time.
  std::int64_t host_bytes = std::numeric_limits<std::int64_t>::max();
  int num_gpus = 0;        ///< of the machine; 0: all rows lie on the host or below
  Count stripe_rows = 64;  ///< rows per stripe block
};

/// The rows of a tensor in one stratum, and what is expected of them.
struct StratumEstimate {
  tensor::Stratum stratum = tensor::Stratum::host;
  Count rows = 0;
  double share = 0;             ///< of the accesses to the tensor
  double bytes_per_second = 0;  ///< useful bytes, if only this stratum were read; 0 if no rate is known
  double seconds = 0;           ///< per batch, if only this stratum were read
};

struct TensorPlan {
  std::string name;
  std::int64_t row_bytes = 0;
  tensor::Placement placement;
  std::vector<StratumEstimate> strata;  ///< those with rows, in the order of the rows
};

/// Seconds that a batch takes on the path to each level. One kernel reads all levels, so the paths work at
/// the same time and the slowest decides.
///
/// Every row passes through the GPU's own memory: it is read there, or served from there to a peer while a
/// peer serves this GPU, or written there by the gather. So the seconds of replicated rows are those of all
/// rows, the same for all placements, and rows that fit on the GPUs are never faster on the host. On G GPUs,
/// (G - 1) / G of the reads of striped rows take the path to peers.
struct PathSeconds : tensor::ByStratum<double> {
  double batch() const;
};

struct MachinePlan {
  std::vector<TensorPlan> tensors;  ///< in the order of the demands
  std::int64_t gpu_bytes = 0;       ///< used on each GPU
  PathSeconds seconds;
};

/// Chooses how many rows of each segment lie in each level.
///
/// Buckets of rows of all tensors and segments are ranked by the time that each of their bytes saves on the
/// host path, so all segments of a tensor share one threshold of heat. The hottest buckets are replicated,
/// the next ones striped, and the tail stays on the host, or lies below where the host is full. A search
/// finds how much of the budget to replicate, for every choice of the tensors that stay whole. Among plans of
/// equal time the one with less traffic off the GPU wins, so what fits is replicated.
///
/// Throws InputError if the fixed placements exceed the budget.
MachinePlan plan_tensors(std::span<const TensorDemand> demands, const PlanLimits& limits);

/// The fewest rows that serve a share of the reads.
struct HottestRows {
  double share = 0;  ///< of the accesses to the tensor
  Count rows = 0;    ///< of all segments together
};

/// For each share, which ascend: the rows that a plan would put on GPUs to serve it. Buckets of the curves
/// count in part. A tensor that is not read needs none.
///
/// Rows 0 to 3 are read 50, 30, 15 and 5 times: 0.5 takes 1 row, 0.8 takes 2, and 0.9 takes 3.
std::vector<HottestRows> hottest_rows(const TensorDemand& demand, std::span<const double> shares);

/// The estimates for given placements, one per demand. Bytes of stripes are those on the fullest GPU.
MachinePlan estimate(std::span<const TensorDemand> demands, std::vector<tensor::Placement> placements,
                     const PlanLimits& limits);

/// What a person asks of the placement (--placement).
struct PlacementRequest {
  enum class Mode {
    automatic,  ///< the planner chooses
    host,       ///< nothing on the GPUs
    replicate,  ///< everything on every GPU
    stripe,     ///< all features over the GPUs; the planner chooses for the other tensors
    in_order,   ///< features before indices before indptr, each as far as there is room; the planner is not
                ///< asked
    shares,     ///< `shares` decides for some tensors, the planner for the rest
  };
  /// How the rows of each segment of a tensor are divided.
  struct Shares {
    std::string tensor;
    tensor::ByStratum<double> percent = {};  ///< of the levels that GPUs read; they add up to 100
  };

  Mode mode = Mode::automatic;
  std::vector<Shares> shares;

  std::string text() const;  ///< as parse_placement() reads it
};

/// Reads "auto", "host", "replicate", "stripe", "in-order", or NAME=R%/S%/H%[,NAME=...] with R percent of the
/// rows replicated, S striped and H on the host; the percent signs may be left out. Names are features,
/// indptr, indices (with the weights and ids of edges), original-ids and in-degrees; the last two cannot be
/// divided. Throws InputError with what is wrong and an example.
PlacementRequest parse_placement(std::string_view text);

/// Sets `fixed` of the demands that the request decides. Names that no demand has are ignored, because not
/// every run has all tensors. Throws InputError if the request divides a tensor that stays whole, or wants
/// rows on GPUs that are not there.
void fix_placements(const PlacementRequest& request, const PlanLimits& limits,
                    std::span<TensorDemand> demands);

}  // namespace strata::plan
