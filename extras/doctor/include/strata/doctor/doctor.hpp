// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/train/config.hpp"

namespace strata::doctor {

/// The request to the doctor; the same on all ranks.
struct Request {
  bool quick = false;
  std::string json = {};                        ///< file for the findings and what was measured; empty: none
  std::string graph = {};                       ///< part folder; empty: storage is not measured
  std::string output = {};                      ///< folder of a run; empty: the working directory
  std::optional<train::TrainConfig> plan = {};  ///< the planned training on the graph

  /// The longest time from `started` to the end.
  std::chrono::seconds limit() const { return std::chrono::seconds(quick ? 10 : 60); }
};

/// Sets what libraries read from the environment. Call it early in main, before MPI starts.
void prepare_environment();

/// Looks at the hosts, GPUs, networks and storage of all ranks, and prints what it finds on rank 0. Returns
/// the exit code: 0 all is well, 1 warnings, 2 a run would fail. If a rank falls silent, the run ends there,
/// with what was found so far.
///
/// `request` has `quick` and `json`; `complete` adds the rest. It is called on every rank once all ranks are
/// known to answer, before anything is measured, and may be collective; what it throws comes out of
/// examine(). Collective over `world`, which has exchanged no message yet.
int examine(Request request, const std::function<void(Request&)>& complete, const comm::World& world,
            std::chrono::steady_clock::time_point started);

}  // namespace strata::doctor
