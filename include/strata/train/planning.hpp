// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// The request to strata-plan.
struct PlanRequest {
  /// --cluster: "machines=16,gpus=8,link=400Gbit/s,..."; empty: the machines of this run.
  std::string cluster;
  bool json = false;  ///< one line of JSON instead of tables
};

/// A plan in the two ways in which strata-plan prints it.
struct RunPlan {
  std::string tables;
  std::string record;  ///< one line of JSON
};

/// The measured speed of MPI between the machines at hand.
struct MeasuredLink {
  double bytes_per_second = 0;  ///< that the slowest machine sends
  double latency_seconds = 0;   ///< of a message
};

/// As validate(), of a run that is only planned, whose graph may be described instead of given.
void validate_plan(const TrainConfig& config);

/// Predicts what a run with this configuration needs and how fast it is: memory per GPU and host, the places
/// of rows, the expected step and what limits it. `cluster` is PlanRequest::cluster. Nothing is loaded
/// as a whole and nothing is trained. Throws InputError as validate(), for a malformed cluster, and for
/// graphs without parts or a description. Without a `cluster`, `link` counts where ranks compute on CPUs, instead of a
/// default; GPUs may have other links. Collective; the first rank works, and the texts are empty elsewhere.
RunPlan plan_run(const TrainConfig& config, const std::string& cluster, const comm::World& world,
                 const std::optional<MeasuredLink>& link = {});

}  // namespace strata::train
