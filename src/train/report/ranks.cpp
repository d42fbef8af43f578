// SPDX-License-Identifier: Apache-2.0
#include "report/ranks.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace strata::train {

using nlohmann::json;

json ranks_record(const comm::Communicator& world, const comm::Topology& topology, const EpochReport& epoch,
                  std::int64_t peak_device_bytes) {
  const comm::Topology::Rank& place = topology.ranks[static_cast<std::size_t>(world.rank())];
  const json mine{{"rank", world.rank()},
                  {"machine", place.machine},
                  {"host", place.host},
                  {"device", place.device.str()},
                  {"sample_seconds", epoch.stages.sample},
                  {"gather_seconds", epoch.stages.gather},
                  {"wait_seconds", epoch.stages.wait},
                  {"compute_seconds", epoch.compute_seconds()},
                  {"sum_seconds", epoch.sum_seconds},
                  {"peak_host_bytes", epoch.peak_host_bytes},
                  {"peak_device_bytes", peak_device_bytes}};
  json ranks = json::array();
  for (const std::string& rank : world.gather(mine.dump(), 0)) ranks.push_back(json::parse(rank));
  if (world.rank() != 0) return {};
  return {{"type", "ranks"}, {"epoch", epoch.epoch}, {"ranks", std::move(ranks)}};
}

}  // namespace strata::train
