// SPDX-License-Identifier: Apache-2.0
#include "report/ranks.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace strata::train {

using nlohmann::json;

namespace {

/// The samples as one array per field: repeated names of fields would be most of the record.
json samples_json(const std::vector<MemorySample>& samples) {
  json times = json::array(), host = json::array(), device = json::array();
  for (const MemorySample& sample : samples) {
    times.push_back(sample.time);
    host.push_back(sample.host_bytes);
    device.push_back(sample.device_bytes);
  }
  return {{"time", std::move(times)}, {"host_bytes", std::move(host)}, {"device_bytes", std::move(device)}};
}

}  // namespace

json ranks_record(const comm::Communicator& world, const comm::Topology& topology, const EpochReport& epoch,
                  const RankMemory& memory) {
  const comm::Topology::Rank& place = topology.ranks[at(world.rank())];
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
                  {"peak_device_bytes", memory.peak_device_bytes},
                  {"memory", samples_json(memory.samples)}};
  json ranks = json::array();
  for (const std::string& rank : world.gather(mine.dump(), 0)) ranks.push_back(json::parse(rank));
  if (world.rank() != 0) return {};
  return {{"type", "ranks"}, {"epoch", epoch.epoch}, {"ranks", std::move(ranks)}};
}

}  // namespace strata::train
