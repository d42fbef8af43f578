// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "strata/comm/machine.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::comm {
namespace {

using Compute = TopologyOptions::Compute;

void check_options(const std::vector<RankFacts>& facts) {
  const TopologyOptions& first = facts.front().options;
  if (first.ranks_per_machine < 0) {
    throw InputError(fmt::format("--ranks-per-machine is {}, below 0", first.ranks_per_machine),
                     "Give the ranks of a virtual machine, or 0 to treat each host as one machine.");
  }
  for (std::size_t r = 1; r < facts.size(); ++r) {
    const TopologyOptions& other = facts[r].options;
    if (other.ranks_per_machine != first.ranks_per_machine || other.compute != first.compute) {
      throw InputError(
          fmt::format("rank {} (host {}) was started with another device or --ranks-per-machine than rank 0",
                      r, facts[r].host),
          "Start all ranks with the same options.");
    }
  }
}

/// World ranks of each host, hosts by their lowest rank.
std::map<int, std::vector<int>> ranks_of_hosts(const std::vector<RankFacts>& facts) {
  std::map<int, std::vector<int>> hosts;
  for (std::size_t r = 0; r < facts.size(); ++r) hosts[facts[r].host_leader].push_back(static_cast<int>(r));
  return hosts;
}

/// Makes names distinct: containers may give hosts the same name, but Topology identifies hosts by name.
std::map<int, std::string> distinct_names(const std::vector<RankFacts>& facts,
                                          const std::map<int, std::vector<int>>& hosts) {
  std::map<int, std::string> names;
  std::set<std::string> taken;
  for (const auto& [leader, ranks] : hosts) {
    const std::string& name = facts[at(leader)].host;
    std::string unique = name;
    for (int copy = 2; !taken.insert(unique).second; ++copy) unique = fmt::format("{}#{}", name, copy);
    names[leader] = unique;
  }
  return names;
}

/// Throws InputError if GPUs are asked for and a rank sees none.
void check_gpus(const std::vector<RankFacts>& facts) {
  if (facts.front().options.compute != Compute::cuda) return;
  std::vector<int> without;
  std::vector<std::string> hosts;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    hosts.push_back(facts[r].host);
    if (facts[r].gpus.empty()) without.push_back(static_cast<int>(r));
  }
  if (without.empty()) return;
  throw InputError(
      fmt::format("a GPU was asked for, but {} {} none", names_of_ranks(without, hosts),
                  without.size() == 1 ? "sees" : "see"),
      "Use --device cpu or auto, check nvidia-smi and CUDA_VISIBLE_DEVICES there, and that this is a CUDA "
      "build.");
}

/// Throws InputError if a rank asks for a GPU by a number that it does not see.
void check_numbers(const std::vector<RankFacts>& facts) {
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const std::optional<int> gpu = facts[r].options.gpu;
    if (facts[r].options.compute == Compute::cpu || !gpu || *gpu < static_cast<int>(facts[r].gpus.size()))
      continue;
    throw InputError(fmt::format("rank {} (host {}) asks for cuda:{} and sees {}", r, facts[r].host, *gpu,
                                 counted(static_cast<int>(facts[r].gpus.size()), "GPU")),
                     "GPUs are counted from 0, among those of CUDA_VISIBLE_DEVICES.");
  }
}

Device device_for(const RankFacts& facts, int host_rank) {
  const int visible = static_cast<int>(facts.gpus.size());
  if (facts.options.compute == Compute::cpu || visible == 0) return {};
  return {.kind = Device::Kind::cuda, .index = facts.options.gpu.value_or(host_rank % visible)};
}

void add_machines(const std::vector<int>& host_ranks, int ranks_per_machine, Topology& topology) {
  const int count = static_cast<int>(host_ranks.size());
  const int each = ranks_per_machine == 0 ? count : ranks_per_machine;
  if (count % each != 0) {
    throw InputError(
        fmt::format("host {} has {}, which machines of {} do not divide",
                    topology.ranks[at(host_ranks.front())].host, counted(count, "rank"),
                    counted(each, "rank")),
        "Choose --ranks-per-machine so that it divides the ranks of every host, or another number of ranks.");
  }
  for (int begin = 0; begin < count; begin += each) {
    topology.machines.emplace_back(host_ranks.begin() + begin, host_ranks.begin() + begin + each);
  }
}

void number_machines(Topology& topology) {
  std::sort(topology.machines.begin(), topology.machines.end());  // by their lowest rank, which comes first
  for (int m = 0; m < topology.num_machines(); ++m) {
    const std::vector<int>& members = topology.machines[at(m)];
    for (std::size_t local = 0; local < members.size(); ++local) {
      topology.ranks[at(members[local])].machine = m;
      topology.ranks[at(members[local])].local_rank = static_cast<int>(local);
    }
  }
}

bool every_rank_has_its_gpu(const std::vector<Topology::Rank>& ranks) {
  std::set<std::string> uuids;
  return std::all_of(ranks.begin(), ranks.end(), [&](const Topology::Rank& rank) {
    return rank.device.is_cuda() && uuids.insert(rank.gpu_uuid).second;
  });
}

}  // namespace

int Topology::ranks_on_host(int world_rank) const {
  const std::string& host = ranks[at(world_rank)].host;
  return static_cast<int>(
      std::count_if(ranks.begin(), ranks.end(), [&](const Rank& rank) { return rank.host == host; }));
}

Topology arrange(const std::vector<RankFacts>& facts) {
  check_options(facts);
  check_gpus(facts);
  check_numbers(facts);
  const auto hosts = ranks_of_hosts(facts);
  const auto names = distinct_names(facts, hosts);
  const int ranks_per_machine = facts.front().options.ranks_per_machine;
  Topology topology;
  topology.ranks.resize(facts.size());
  topology.virtual_machines = ranks_per_machine > 0;
  for (const auto& [leader, host_ranks] : hosts) {
    for (std::size_t i = 0; i < host_ranks.size(); ++i) {
      const int host_rank = static_cast<int>(i);
      const RankFacts& own = facts[at(host_ranks[i])];
      Topology::Rank& rank = topology.ranks[at(host_ranks[i])];
      rank.host = names.at(leader);
      rank.host_rank = host_rank;
      rank.device = device_for(own, host_rank);
      if (rank.device.is_cuda()) rank.gpu_uuid = own.gpus[at(rank.device.index)];
    }
    add_machines(host_ranks, ranks_per_machine, topology);
  }
  number_machines(topology);
  topology.gpu_per_rank = every_rank_has_its_gpu(topology.ranks);
  return topology;
}

// One line per field, because host names and uuids have no line breaks.
std::string serialize(const RankFacts& facts) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n", facts.host, facts.host_leader, facts.options.ranks_per_machine,
                  static_cast<int>(facts.options.compute), facts.options.gpu.value_or(-1));
  for (const std::string& gpu : facts.gpus) text += gpu + "\n";
  return text;
}

RankFacts parse_facts(const std::string& text) {
  std::istringstream lines(text);
  const auto next_line = [&] {
    std::string line;
    std::getline(lines, line);
    return line;
  };
  RankFacts facts;
  facts.host = next_line();
  facts.host_leader = std::stoi(next_line());
  facts.options.ranks_per_machine = std::stoi(next_line());
  facts.options.compute = static_cast<Compute>(std::stoi(next_line()));
  if (const int gpu = std::stoi(next_line()); gpu >= 0) facts.options.gpu = gpu;
  for (std::string gpu; std::getline(lines, gpu);) facts.gpus.push_back(gpu);
  return facts;
}

}  // namespace strata::comm
