// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planning/batch_profile.hpp"
#include "strata/batches/routes.hpp"
#include "strata/plan/forecast.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// What a run would need and how fast it would be.
struct StepPlan {
  plan::Cluster cluster = {};
  Count global_batch = 0;
  BatchProfile profile = {};
  plan::MemoryPlan memory = {};
  plan::StepInputs inputs = {};
  plan::StepEstimate estimate = {}, alone = {};  ///< alone: the same batches without other machines
  std::string basis = {};                        ///< where the seconds of compute come from
  batches::Routes routes = {};

  double efficiency() const { return estimate.step > 0 ? alone.step / estimate.step : 0; }
};

/// What a forecast must know of the run on this cluster.
plan::RunShape run_shape(const TrainConfig& config, const graph::GraphTypes& types, int ranks);

/// Where the ranks of such a run are.
comm::Topology topology_of(const plan::Cluster& cluster);

/// As model_name(), for a library that knows no libtorch.
inline std::string planned_model(const TrainConfig& config) {
  return config.own_model.empty() ? std::string(enum_name(config.model)) : config.own_model;
}

/// How fast a rank computes, samples and gathers, where nothing was measured.
struct RankSpeed {
  double flops = 0, aggregated_bytes = 0;  ///< per second
  double picks = 0, row_bytes = 0;         ///< per second
  double start_seconds = 0;                ///< of a step's kernels
};
RankSpeed speed_of(const plan::Cluster& cluster, Precision precision);

/// The messages of a batch: as they are counted in `traffic`. Requests and answers from GPU to GPU have a
/// fixed size, which has a margin, and counts travel in them; lists have room for the fanout, or, without
/// fanouts, all lists together for their picks.
struct ExchangeLoads {
  std::vector<plan::WireLoad> hops = {};
  plan::WireLoad rows = {};
};
ExchangeLoads loads_of(const BatchProfile& profile, const std::vector<int>& fanouts,
                       const plan::MemoryPlan& memory, int machines, const batches::Routes& routes,
                       const plan::WireBytes& wire);

/// Samples some batches and adds up. Reads of a graph its manifest and the lists of these batches, or its
/// description. Throws InputError for a graph without either, for measured runs of another model, and for
/// options that do not fit its types.
StepPlan make_plan(const TrainConfig& config, const plan::Cluster& cluster);

std::string plan_text(const TrainConfig& config, const StepPlan& plan);
nlohmann::json plan_record(const TrainConfig& config, const StepPlan& plan);

}  // namespace strata::train
