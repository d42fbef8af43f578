// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "strata/comm/machine.hpp"
#include "topology/rank_limits.hpp"

namespace strata::comm {
namespace {

/// Numbers of a host's ranks and of its machines that may use each key.
template <typename Key>
class Users {
 public:
  void add(const Key& key, int machine) {
    Entry& entry = entries_[key];
    ++entry.ranks;
    ++entry.of_machine[machine];
  }
  int ranks(const Key& key) const { return entries_.at(key).ranks; }
  int machines(const Key& key) const { return static_cast<int>(entries_.at(key).of_machine.size()); }
  int ranks_of(const Key& key, int machine) const { return entries_.at(key).of_machine.at(machine); }

 private:
  struct Entry {
    int ranks = 0;
    std::map<int, int> of_machine;  // ranks
  };
  std::map<Key, Entry> entries_;
};

int whole_cores(double share) {
  constexpr double kRounding = 1e-6;
  return std::max(1, static_cast<int>(std::floor(share + kRounding)));
}

/// The resources of the ranks of one host.
class HostDivision {
 public:
  HostDivision(const std::vector<RankLimits>& limits, const std::vector<int>& ranks, const Topology& topology)
      : limits_(limits), ranks_(ranks), topology_(topology) {
    for (const int rank : ranks_) {
      for (const int processor : limits_[at(rank)].processors) processors_.add(processor, machine_of(rank));
      for (const std::string& group : limits_[at(rank)].groups) groups_.add(group, machine_of(rank));
      groups_.add("", machine_of(rank));
    }
  }

  Resources of(int rank) const {
    Resources resources;
    resources.host_ranks = static_cast<int>(ranks_.size());
    resources.cores = whole_cores(
        share_of_cores(rank, [](const auto& users, const auto& key) { return users.ranks(key); }));
    resources.cores_alone = whole_cores(
        share_of_cores(rank, [](const auto& users, const auto& key) { return users.machines(key); }));
    resources.own_processors = own_processors(rank, resources.cores);
    const auto share = [&](const std::string& group) {
      resources.sharers[group] = {groups_.ranks(group), groups_.ranks_of(group, machine_of(rank))};
    };
    share("");
    for (const std::string& group : limits_[at(rank)].groups) share(group);
    return resources;
  }

 private:
  int machine_of(int rank) const { return topology_.ranks[at(rank)].machine; }

  /// `count` returns the number of ranks that divide something.
  template <typename Count>
  double share_of_cores(int rank, Count&& count) const {
    double cores = 0;
    for (const int processor : limits_[at(rank)].processors) cores += 1.0 / count(processors_, processor);
    for (const auto& quota : limits_[at(rank)].quotas)
      cores = std::min(cores, quota.cores / count(groups_, quota.group));
    return cores;
  }

  std::vector<int> own_processors(int rank, int cores) const {
    const std::vector<int>& mask = limits_[at(rank)].processors;
    std::vector<int> alike;  // ranks with the same mask
    for (const int other : ranks_) {
      if (limits_[at(other)].processors == mask) alike.push_back(other);
    }
    const bool overlaps = std::ranges::any_of(
        mask, [&](int processor) { return processors_.ranks(processor) != static_cast<int>(alike.size()); });
    const std::size_t share = mask.size() / alike.size();
    if (overlaps || share != at(cores)) return {};
    const auto place = std::ranges::find(alike, rank) - alike.begin();
    const auto first = mask.begin() + place * static_cast<std::ptrdiff_t>(share);
    return {first, first + static_cast<std::ptrdiff_t>(share)};
  }

  const std::vector<RankLimits>& limits_;
  const std::vector<int>& ranks_;
  const Topology& topology_;
  Users<int> processors_;
  Users<std::string> groups_;
};

void share_gpus(const Topology& topology, std::vector<Resources>& resources) {
  std::map<std::string, std::vector<int>> ranks_of_gpu;
  for (std::size_t rank = 0; rank < topology.ranks.size(); ++rank) {
    if (topology.ranks[rank].device.is_cuda())
      ranks_of_gpu[topology.ranks[rank].gpu_uuid].push_back(static_cast<int>(rank));
  }
  for (std::size_t rank = 0; rank < topology.ranks.size(); ++rank) {
    if (topology.ranks[rank].device.is_cuda())
      resources[rank].gpu_ranks = ranks_of_gpu[topology.ranks[rank].gpu_uuid];
  }
}

}  // namespace

std::vector<Resources> divide(const std::vector<RankLimits>& limits, const Topology& topology) {
  std::map<std::string, std::vector<int>> hosts;
  for (std::size_t rank = 0; rank < limits.size(); ++rank)
    hosts[topology.ranks[rank].host].push_back(static_cast<int>(rank));
  std::vector<Resources> resources(limits.size());
  for (const auto& [host, ranks] : hosts) {
    const HostDivision division(limits, ranks, topology);
    for (const int rank : ranks) resources[at(rank)] = division.of(rank);
  }
  share_gpus(topology, resources);
  return resources;
}

Resources::FreeMemory Resources::free_memory() const { return share_of(HostLimits().free_memory()); }

Resources::FreeMemory Resources::share_of(const std::vector<HostLimits::FreeMemory>& limits) const {
  constexpr std::int64_t kUnknown = std::int64_t{1} << 50;  // if /proc does not say
  const auto host = sharers.find("");
  const Sharers all = host == sharers.end() ? Sharers{} : host->second;
  FreeMemory free{kUnknown, kUnknown};
  for (const auto& limit : limits) {
    const auto found = sharers.find(limit.group);
    const Sharers& among = found == sharers.end() ? all : found->second;
    free.share_bytes = std::min(free.share_bytes, limit.bytes / among.of_host);
    free.most_bytes = std::min(free.most_bytes, limit.bytes / among.of_machine);
  }
  return free;
}

Resources Resources::of_process() {
  Topology topology;
  topology.ranks.resize(1);
  return divide({RankLimits::of_process()}, topology).front();
}

RankLimits RankLimits::of_process() {
  const HostLimits limits;
  return {.processors = limits.processors(), .groups = limits.groups(), .quotas = limits.cpu_quotas()};
}

// One line per field, because names of groups have no line breaks and no spaces.
std::string serialize(const RankLimits& limits) {
  std::string quotas;
  for (const auto& quota : limits.quotas) quotas += fmt::format("{} {} ", quota.group, quota.cores);
  return fmt::format("{}\n{}\n{}\n", fmt::join(limits.processors, " "), fmt::join(limits.groups, " "),
                     quotas);
}

RankLimits parse_limits(const std::string& text) {
  std::istringstream lines(text);
  const auto next_line = [&] {
    std::string line;
    std::getline(lines, line);
    return std::istringstream(line);
  };
  std::istringstream processors = next_line(), groups = next_line(), quotas = next_line();
  RankLimits limits;
  for (int processor = 0; processors >> processor;) limits.processors.push_back(processor);
  for (std::string group; groups >> group;) limits.groups.push_back(group);
  for (HostLimits::CpuQuota quota; quotas >> quota.group >> quota.cores;) limits.quotas.push_back(quota);
  return limits;
}

}  // namespace strata::comm
