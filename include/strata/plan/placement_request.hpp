// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/plan/planner.hpp"

namespace strata::plan {

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
