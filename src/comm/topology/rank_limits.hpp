// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/util/system.hpp"

namespace strata::comm {

/// What the kernel lets one rank take, before ranks divide it.
struct RankLimits {
  std::vector<int> processors;               ///< processors that the rank may run on
  std::vector<std::string> groups;           ///< its control groups
  std::vector<HostLimits::CpuQuota> quotas;  ///< of these groups

  static RankLimits of_process();
};

/// The resources of all ranks, from the limits of each, both by world rank. Does not communicate.
std::vector<Resources> divide(const std::vector<RankLimits>& limits, const Topology& topology);

std::string serialize(const RankLimits& limits);
RankLimits parse_limits(const std::string& text);

}  // namespace strata::comm
