// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "strata/train/config.hpp"

namespace strata::train {

/// The program of a run, its place and time.
struct RunOrigin {
  std::string version;                 ///< "0.2.0+g1a2b3c4d5e"
  std::vector<std::string> libraries;  ///< "libtorch 2.9.1", "Open MPI v4.1.4", ...
  std::string parts_by;                ///< the program that made the parts, and its libraries; "": none
  std::vector<std::string> hosts;      ///< each once, in order of their first rank
  int num_ranks = 1;
  std::string folder;   ///< in which it was started
  std::string started;  ///< 2026-11-22T20:30:00
};

/// The origin of this process's run; `hosts` are the hosts of the ranks.
RunOrigin run_origin(const std::vector<std::string>& hosts, const std::string& parts_by);

/// The contents of config.toml: every option with its value and where that came from. --config reads it back;
/// options of this run only are comments there, and so is a model that a program has of its own.
std::string config_record(const TrainConfig& config, const RunOrigin& origin);

/// {"hidden": 256, ...}: every option with its value.
nlohmann::json options_record(const TrainConfig& config);

}  // namespace strata::train
