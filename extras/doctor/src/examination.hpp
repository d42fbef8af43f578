// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "network.hpp"
#include "report.hpp"
#include "strata/comm/machine.hpp"
#include "strata/comm/watchdog.hpp"
#include "strata/doctor/doctor.hpp"
#include "strata/train/planning.hpp"

namespace strata::doctor {

/// The checks, one after the other. Each gathers facts on every rank, shares them with all, and judges
/// them.
class Examination {
 public:
  /// Collective over `world`, as run() is.
  Examination(const Request& request, const comm::World& world, comm::Watchdog& watchdog, Report& report,
              std::chrono::steady_clock::time_point started);
  void run();

 private:
  void enter(const char* name);
  template <typename Work>
  /// Runs a check, unless more than this share of the time is gone, so that what has begun can end.
  void check(const char* name, Work&& work, double share = 0.7);
  bool has_time(double share) const;

  void learn_hosts();
  void check_storage();
  void check_output();
  void check_network();
  void check_clocks();
  void check_gpus();
  void check_nccl();
  void check_plan();

  std::optional<train::MeasuredLink> link_of_plan() const;
  bool leads_host() const;
  const comm::Topology::Rank& place() const;
  std::vector<int> ranks_of_host() const;
  /// The value that the first rank measured with the other leaders of hosts, on every rank.
  template <typename Value>
  Value from_leaders(Value value) const;

  const Request& request_;
  const comm::World& world_;
  comm::Watchdog& watchdog_;
  Report& report_;
  std::chrono::steady_clock::time_point started_;
  comm::Topology topology_;
  comm::Communicator leaders_;  // the first rank of each host; other ranks have one of their own
  std::vector<RankFacts> ranks_;
  NetworkFacts network_;
  std::vector<std::string> left_out_;
};

}  // namespace strata::doctor
