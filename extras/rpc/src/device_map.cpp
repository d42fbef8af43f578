// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/device_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::rpc {
namespace {

constexpr std::size_t kLongestName = 127;
constexpr std::string_view kRankPrefix = "rank:";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':' ||
         c == '-';
}

std::optional<int> numbered_rank(std::string_view name, std::size_t size) {
  if (!name.starts_with(kRankPrefix)) return std::nullopt;
  name.remove_prefix(kRankPrefix.size());
  int rank = -1;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (fault != std::errc{} || end != name.data() + name.size() || rank < 0 || rank >= static_cast<int>(size))
    return std::nullopt;
  return rank;
}

std::optional<int> find_rank(const std::string& name, std::span<const AgentFacts> agents) {
  const auto found = std::ranges::find(agents, name, &AgentFacts::name);
  if (found != agents.end()) return static_cast<int>(found - agents.begin());
  return numbered_rank(name, agents.size());
}

std::string unknown_agent(const std::string& name, std::span<const AgentFacts> agents) {
  std::vector<std::string> names;
  for (const AgentFacts& agent : agents) names.push_back(agent.name);
  const std::string near = closest(name, names);
  return fmt::format("no agent is called '{}'{}", name,
                     near.empty() ? std::string() : fmt::format("; did you mean '{}'?", near));
}

void check_name(std::size_t rank, std::span<const AgentFacts> agents, std::vector<std::string>& faults) {
  const std::string& name = agents[rank].name;
  if (name.empty() || name.size() > kLongestName || !std::ranges::all_of(name, is_name_character)) {
    faults.push_back(
        fmt::format("rank {}: the name '{}' is not made of 1 to {} letters, digits, '_', ':' and '-'", rank,
                    name, kLongestName));
  }
  if (name.starts_with(kRankPrefix) && numbered_rank(name, agents.size()) != static_cast<int>(rank))
    faults.push_back(fmt::format("rank {}: the name '{}' is that of a rank", rank, name));
  for (std::size_t other = 0; other < rank; ++other) {
    if (agents[other].name == name)
      faults.push_back(fmt::format("ranks {} and {} are both called '{}'", other, rank, name));
  }
}

/// One side of a map: the owner of the devices, and how often each is there.
struct Side {
  const std::string& agent;
  int num_devices;
  const char* twice;
  std::vector<int> devices;
};

void check_side(const std::string& map, Side side, std::vector<std::string>& faults) {
  std::ranges::sort(side.devices);
  for (std::size_t i = 0; i < side.devices.size(); ++i) {
    const int device = side.devices[i];
    const bool repeated = i > 0 && side.devices[i - 1] == device;
    const bool reported = i > 1 && side.devices[i - 2] == device;
    if (repeated && !reported) faults.push_back(fmt::format("{}: cuda:{} {}", map, device, side.twice));
    if (!repeated && (device < 0 || device >= side.num_devices)) {
      faults.push_back(
          fmt::format("{}: {} has no cuda:{}, it has {} devices", map, side.agent, device, side.num_devices));
    }
  }
}

void check_map(const AgentFacts& agent, const AgentFacts& peer, const DeviceMap& map,
               std::vector<std::string>& faults) {
  const std::string name = fmt::format("{}'s device map for {} ({})", agent.name, peer.name, map.text());
  Side mine{.agent = agent.name, .num_devices = agent.num_devices, .twice = "is mapped twice", .devices = {}};
  Side its{.agent = peer.name,
           .num_devices = peer.num_devices,
           .twice = "has two devices mapped to it",
           .devices = {}};
  for (const DevicePair& pair : map.pairs()) {
    mine.devices.push_back(pair.mine);
    its.devices.push_back(pair.its);
  }
  check_side(name, std::move(mine), faults);
  check_side(name, std::move(its), faults);
}

}  // namespace

std::optional<int> DeviceMap::to_peer(int mine) const {
  const auto found = std::ranges::find(pairs_, mine, &DevicePair::mine);
  return found == pairs_.end() ? std::nullopt : std::optional(found->its);
}

std::optional<int> DeviceMap::to_caller(int its) const {
  const auto found = std::ranges::find(pairs_, its, &DevicePair::its);
  return found == pairs_.end() ? std::nullopt : std::optional(found->mine);
}

std::string DeviceMap::text() const {
  if (pairs_.empty()) return "nothing";
  std::vector<std::string> parts;
  for (const DevicePair& pair : pairs_)
    parts.push_back(fmt::format("cuda:{} -> cuda:{}", pair.mine, pair.its));
  return fmt::format("{}", fmt::join(parts, ", "));
}

int rank_of(const std::string& name, std::span<const AgentFacts> agents) {
  if (const std::optional<int> rank = find_rank(name, agents)) return *rank;
  throw InputError(unknown_agent(name, agents));
}

std::vector<DeviceMap> maps_of(int rank, std::span<const AgentFacts> agents) {
  std::vector<DeviceMap> maps(agents.size());
  for (const AgentFacts::Map& map : agents[at(rank)].maps) {
    const std::optional<int> peer = find_rank(map.peer, agents);
    if (peer) maps[at(*peer)].add(map.pairs);
  }
  return maps;
}

void check_agents(std::span<const AgentFacts> agents) {
  std::vector<std::string> faults;
  for (std::size_t rank = 0; rank < agents.size(); ++rank) {
    check_name(rank, agents, faults);
    for (const AgentFacts::Map& map : agents[rank].maps) {
      if (!find_rank(map.peer, agents)) {
        faults.push_back(fmt::format("{}'s device map for '{}': {}", agents[rank].name, map.peer,
                                     unknown_agent(map.peer, agents)));
      }
    }
    const std::vector<DeviceMap> maps = maps_of(static_cast<int>(rank), agents);
    for (std::size_t peer = 0; peer < maps.size(); ++peer)
      check_map(agents[rank], agents[peer], maps[peer], faults);
  }
  if (!faults.empty()) throw InputError(fmt::format("{}", fmt::join(faults, "\n  ")));
}

}  // namespace strata::rpc
