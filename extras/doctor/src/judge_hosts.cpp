// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "judge.hpp"
#include "strata/comm/machine.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::doctor {
namespace {

std::vector<std::string> host_names(const std::vector<RankFacts>& ranks) {
  std::vector<std::string> names;
  for (const RankFacts& rank : ranks) names.push_back(rank.host);
  return names;
}

const RankFacts& first_of(const Host& host, const std::vector<RankFacts>& ranks) {
  return ranks[at(host.ranks.front())];
}

/// The value that most ranks have; of several, the first rank's.
std::string usual(const std::vector<std::string>& values) {
  std::string most;
  std::ptrdiff_t count = 0;
  for (const std::string& value : values) {
    const std::ptrdiff_t same = std::ranges::count(values, value);
    if (same > count) most = value, count = same;
  }
  return most;
}

/// "most ranks have", or of two halves "host h0 has".
std::string who_has(const std::string& value, const std::vector<std::string>& values,
                    const std::vector<RankFacts>& ranks) {
  if (2 * std::ranges::count(values, value) > std::ssize(values)) return "most ranks have";
  const auto first = std::ranges::find(values, value) - values.begin();
  return fmt::format("host {} has", ranks[at(first)].host);
}

/// The severity of a difference of hosts in a library.
Level level_of_difference(const std::string& library) {
  if (library == "Strata" || library == "MPI" || library == "NCCL") return Level::failure;
  return library == "glibc" ? Level::note : Level::warning;
}

std::string limit_text(std::int64_t bytes) {
  return bytes == RankFacts::kUnlimited ? "unlimited" : format_bytes(bytes);
}

Findings judge_locked_memory(const std::vector<RankFacts>& ranks) {
  constexpr std::int64_t kEnough = std::int64_t{1} << 30;
  const auto value = [](const RankFacts& rank) {
    return rank.locked_bytes == RankFacts::kUnlimited ? std::numeric_limits<std::int64_t>::max()
                                                      : rank.locked_bytes;
  };
  std::int64_t most = 0;
  for (const RankFacts& rank : ranks) most = std::max(most, value(rank));
  Findings findings;
  for (const Host& host : hosts_of(ranks)) {
    std::int64_t least = most;
    bool rdma = false;
    for (const int r : host.ranks) {
      least = std::min(least, value(ranks[at(r)]));
      rdma = rdma || std::ranges::any_of(ranks[at(r)].interfaces, &Interface::rdma);
    }
    const bool too_little = rdma && least < kEnough;
    if (!too_little && least == most) continue;
    findings.push_back(
        {.level = too_little ? Level::failure : Level::warning,
         .check = "limits",
         .host = host.name,
         .message =
             fmt::format("a process may lock {} of memory{}", format_bytes(least),
                         too_little ? ", and its network cards need it locked"
                                    : fmt::format(", on other hosts {}",
                                                  limit_text(most == std::numeric_limits<std::int64_t>::max()
                                                                 ? RankFacts::kUnlimited
                                                                 : most))),
         .action = "Set \"* - memlock unlimited\" in /etc/security/limits.conf there (LimitMEMLOCK=infinity "
                   "for slurmd); ulimit -l shows it.",
         .remedy = Remedy::locked_memory});
  }
  return findings;
}

void judge_open_files(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  constexpr std::int64_t kOwn = 256, kPerRank = 4;
  const std::int64_t limit = first_of(host, ranks).open_files;
  const std::int64_t wanted = kOwn + kPerRank * std::ssize(ranks);
  if (limit == RankFacts::kUnlimited || limit >= wanted) return;
  findings.push_back(
      {.level = Level::failure,
       .check = "limits",
       .host = host.name,
       .message = fmt::format("a process may open {}; a run of {} opens up to {}", counted(limit, "file"),
                              counted(std::ssize(ranks), "rank"), wanted),
       .action = "ulimit -n 65536 before mpirun, or nofile in /etc/security/limits.conf there.",
       .remedy = Remedy::open_files});
}

void judge_shared_memory(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  constexpr std::int64_t kPerRank = std::int64_t{16} << 20;  // segments of MPI and NCCL
  const RankFacts& facts = first_of(host, ranks);
  const std::int64_t wanted = kPerRank * std::ssize(host.ranks);
  if (host.ranks.size() < 2 || facts.shm_free_bytes >= wanted) return;
  findings.push_back(
      {.level = Level::failure,
       .check = "limits",
       .host = host.name,
       .message = fmt::format("/dev/shm has {} free of {}; messages between its {} ranks take up to {}",
                              format_bytes(facts.shm_free_bytes), format_bytes(facts.shm_bytes),
                              host.ranks.size(), format_bytes(wanted)),
       .action = "mount -o remount,size=50% /dev/shm as root; for containers, docker run --shm-size=16g.",
       .remedy = Remedy::shared_memory});
}

void judge_namespaces(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  for (const auto& [kind, name] : first_of(host, ranks).namespaces) {
    const bool same = std::ranges::all_of(host.ranks, [&, &kind = kind, &name = name](int r) {
      const auto found = ranks[at(r)].namespaces.find(kind);
      return found != ranks[at(r)].namespaces.end() && found->second == name;
    });
    if (same) continue;
    findings.push_back(
        {.level = Level::warning,
         .check = "limits",
         .host = host.name,
         .message = fmt::format("its ranks are in different containers ({} namespaces differ), so that "
                                "what they share must fit into /dev/shm ({} free)",
                                kind, format_bytes(first_of(host, ranks).shm_free_bytes)),
         .action = "Run the ranks of a host in one container.",
         .remedy = Remedy::containers});
    return;
  }
}

void judge_memory_settings(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  constexpr std::int64_t kNoticeable = 20;  // a share of the host's memory: 1 / 20
  const RankFacts& facts = first_of(host, ranks);
  if (facts.huge_free_bytes > facts.host_memory_bytes / kNoticeable)
    findings.push_back(
        {.level = Level::warning,
         .check = "limits",
         .host = host.name,
         .message = fmt::format("{} of {} are reserved as huge pages that Strata does not use",
                                format_bytes(facts.huge_free_bytes), format_bytes(facts.host_memory_bytes)),
         .action = "sysctl vm.nr_hugepages=0 as root, if no other program needs them.",
         .remedy = Remedy::huge_pages});
  constexpr int kNever = 2;
  if (facts.overcommit == kNever)
    findings.push_back({.level = Level::warning,
                        .check = "limits",
                        .host = host.name,
                        .message =
                            "the kernel counts memory when it is asked for, not when it is used "
                            "(vm.overcommit_memory is 2), and libraries ask for far more than they use",
                        .action = "sysctl vm.overcommit_memory=0 as root.",
                        .remedy = Remedy::overcommit});
  if (facts.huge_pages == "never")
    findings.push_back({.level = Level::note,
                        .check = "limits",
                        .host = host.name,
                        .message = "transparent huge pages are off; random reads of large tables are slower",
                        .action = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled as root.",
                        .remedy = Remedy::transparent_huge_pages});
}

void judge_processors(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  std::set<int> processors;
  for (const int r : host.ranks)
    processors.insert(ranks[at(r)].processors.begin(), ranks[at(r)].processors.end());
  const std::size_t num_ranks = host.ranks.size();
  const auto available = at(first_of(host, ranks).host_processors);
  if (processors.size() < num_ranks && available >= num_ranks) {
    findings.push_back({.level = Level::warning,
                        .check = "ranks",
                        .host = host.name,
                        .message = fmt::format("{} may run on {} of its {}",
                                               counted(std::ssize(host.ranks), "rank"), processors.size(),
                                               counted(first_of(host, ranks).host_processors, "processor")),
                        .action = "mpirun --bind-to none, or a larger cpuset (Slurm: --cpus-per-task).",
                        .remedy = Remedy::binding});
    return;
  }
  if (processors.size() < num_ranks) {
    findings.push_back({.level = Level::warning,
                        .check = "ranks",
                        .host = host.name,
                        .message = fmt::format("{} share {}", counted(std::ssize(host.ranks), "rank"),
                                               counted(std::ssize(processors), "processor")),
                        .action = "Start fewer ranks on it.",
                        .remedy = Remedy::oversubscription});
    return;
  }
  constexpr std::size_t kFew = 4;  // a rank could have so many times the processors that it has
  const bool bound = std::ranges::any_of(
      host.ranks, [&](int r) { return ranks[at(r)].processors.size() * kFew * num_ranks <= available; });
  if (!bound) return;
  findings.push_back({.level = Level::warning,
                      .check = "ranks",
                      .host = host.name,
                      .message = fmt::format("{} may run on {} of {} processors",
                                             num_ranks == 1 ? std::string("its rank")
                                                            : fmt::format("each of its {} ranks", num_ranks),
                                             first_of(host, ranks).processors.size(), available),
                      .action = "mpirun --bind-to none, or --map-by slot:PE=N (Slurm: --cpus-per-task).",
                      .remedy = Remedy::binding});
}

/// Judges the use by other programs of the processors that the ranks of a host may run on.
void judge_busy_processors(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  constexpr double kShare = 0.15, kLeast = 0.5;  // of the processors, and in processors
  std::map<int, double> busy;                    // several ranks may have looked at a processor
  double others = 0;
  for (const int r : host.ranks) {
    const RankFacts& rank = ranks[at(r)];
    for (std::size_t i = 0; i < std::min(rank.busy.size(), rank.processors.size()); ++i)
      busy[rank.processors[i]] = std::max(busy[rank.processors[i]], rank.busy[i]);
    others -= rank.own_cores;
  }
  for (const auto& [processor, share] : busy) others += share;
  const auto all = static_cast<double>(busy.size());
  if (others < std::max(kLeast, kShare * all)) return;
  findings.push_back(
      {.level = Level::warning,
       .check = "ranks",
       .host = host.name,
       .message = fmt::format("other programs use {:.1f} of the {} that its ranks may run on", others,
                              counted(std::ssize(busy), "processor")),
       .action = "End them (top lists them), or ask for a host of your own (Slurm: --exclusive).",
       .remedy = Remedy::busy_processors});
}

void judge_memory(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  constexpr std::int64_t kLittle = std::int64_t{2} << 30;  // libraries, buffers and batches
  std::int64_t least = ranks[at(host.ranks.front())].memory_bytes;
  for (const int r : host.ranks) least = std::min(least, ranks[at(r)].memory_bytes);
  if (least >= kLittle) return;
  findings.push_back(
      {.level = Level::warning,
       .check = "ranks",
       .host = host.name,
       .message = fmt::format("a rank may take {} of memory", format_bytes(least)),
       .action = "End other programs there, ask for more (Slurm: --mem), or start fewer ranks.",
       .remedy = Remedy::memory});
}

/// Compares GPUs by UUID, because each process numbers the GPUs that it sees.
void judge_gpu_sharing(const std::vector<RankFacts>& ranks, Findings& findings) {
  std::map<std::string, std::vector<int>> users;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (!ranks[r].gpu_uuid.empty()) users[ranks[r].gpu_uuid].push_back(static_cast<int>(r));
  for (const auto& [uuid, sharers] : users)
    if (sharers.size() > 1)
      findings.push_back(
          {.level = Level::warning,
           .check = "ranks",
           .host = ranks[at(sharers.front())].host,
           .message =
               fmt::format("{} share the GPU {} ({})", comm::names_of_ranks(sharers, host_names(ranks)), uuid,
                           ranks[at(sharers.front())].gpu),
           .action = "Start one rank per GPU; launch/with-mps lets ranks that share one run side by side.",
           .remedy = Remedy::shared_gpu});
}

void judge_unused_gpus(const Host& host, const std::vector<RankFacts>& ranks, Findings& findings) {
  std::set<std::string> used;
  int visible = 0, of_driver = 0;
  for (const int r : host.ranks) {
    if (!ranks[at(r)].gpu_uuid.empty()) used.insert(ranks[at(r)].gpu_uuid);
    visible = std::max(visible, ranks[at(r)].visible_gpus);
    of_driver = std::max(of_driver, ranks[at(r)].driver_gpus);
  }
  const auto num_used = static_cast<int>(used.size());
  if (of_driver > 0 && visible == 0)
    findings.push_back(
        {.level = Level::warning,
         .check = "ranks",
         .host = host.name,
         .message = fmt::format("the driver has {}, but no rank can use one", counted(of_driver, "GPU")),
         .action = "Look at CUDA_VISIBLE_DEVICES and at Slurm's --gpus-per-node, and whether this is a build "
                   "with CUDA.",
         .remedy = Remedy::unused_gpu});
  else if (visible > num_used)
    findings.push_back({.level = Level::note,
                        .check = "ranks",
                        .host = host.name,
                        .message = fmt::format("its ranks use {} of {}", num_used, counted(visible, "GPU")),
                        .action = "Start one rank per GPU to use all.",
                        .remedy = Remedy::unused_gpu});
}

}  // namespace

std::vector<Host> hosts_of(const std::vector<RankFacts>& ranks) {
  std::vector<Host> hosts;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto host = std::ranges::find(hosts, ranks[r].host, &Host::name);
    if (host == hosts.end()) host = hosts.insert(host, {.name = ranks[r].host, .ranks = {}});
    host->ranks.push_back(static_cast<int>(r));
  }
  return hosts;
}

Findings judge_versions(const std::vector<RankFacts>& ranks) {
  std::set<std::string> libraries;
  for (const RankFacts& rank : ranks)
    for (const auto& [library, version] : rank.versions) libraries.insert(library);
  Findings findings;
  for (const std::string& library : libraries) {
    std::vector<std::string> versions;
    for (const RankFacts& rank : ranks) {
      const auto found = rank.versions.find(library);
      versions.push_back(found == rank.versions.end() ? "no " + library : found->second);
    }
    const std::string expected = usual(versions);
    for (const Host& host : hosts_of(ranks)) {
      const auto other = std::ranges::find_if(host.ranks, [&](int r) { return versions[at(r)] != expected; });
      if (other == host.ranks.end()) continue;
      findings.push_back(
          {.level = level_of_difference(library),
           .check = "versions",
           .host = host.name,
           .message = fmt::format("has {}; {} {}", versions[at(*other)], who_has(expected, versions, ranks),
                                  expected),
           .action = "Install the same on all hosts, or start all ranks from one shared folder.",
           .remedy = Remedy::versions});
    }
  }
  return findings;
}

Findings judge_ranks(const std::vector<RankFacts>& ranks) {
  Findings findings;
  for (const Host& host : hosts_of(ranks)) {
    judge_processors(host, ranks, findings);
    judge_busy_processors(host, ranks, findings);
    judge_memory(host, ranks, findings);
    judge_unused_gpus(host, ranks, findings);
  }
  judge_gpu_sharing(ranks, findings);
  return findings;
}

Findings judge_limits(const std::vector<RankFacts>& ranks) {
  Findings findings = judge_locked_memory(ranks);
  for (const Host& host : hosts_of(ranks)) {
    judge_open_files(host, ranks, findings);
    judge_shared_memory(host, ranks, findings);
    judge_namespaces(host, ranks, findings);
    judge_memory_settings(host, ranks, findings);
  }
  return findings;
}

Findings judge_numa(const std::vector<RankFacts>& ranks) {
  Findings findings;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankFacts& rank = ranks[r];
    if (rank.gpu_node < 0 || rank.node_processors.empty()) continue;
    const bool near = std::ranges::any_of(rank.processors, [&](int processor) {
      return std::ranges::find(rank.node_processors, processor) != rank.node_processors.end();
    });
    if (near) continue;
    findings.push_back(
        {.level = Level::warning,
         .check = "numa",
         .host = rank.host,
         .message = fmt::format("rank {} may not run on NUMA node {}, where its GPU is", r, rank.gpu_node),
         .action = fmt::format("Bind it to processors of that node ({}..{}), or use mpirun --bind-to none.",
                               rank.node_processors.front(), rank.node_processors.back()),
         .remedy = Remedy::numa});
  }
  return findings;
}

Finding no_answer(const std::string& check, const std::vector<int>& silent,
                  const std::vector<RankFacts>& ranks, const std::string& what) {
  const std::string names =
      ranks.empty() ? fmt::format("rank{} {}", silent.size() == 1 ? "" : "s", fmt::join(silent, ", "))
                    : comm::names_of_ranks(silent, host_names(ranks));
  return {.level = Level::failure,
          .check = check,
          .host = !ranks.empty() && silent.size() == 1 ? ranks[at(silent.front())].host : std::string(),
          .message = fmt::format("{} did not answer: {}", names, what),
          .action = "Look at that host: its network, its memory, and processes that are stopped.",
          .remedy = Remedy::silence};
}

}  // namespace strata::doctor
