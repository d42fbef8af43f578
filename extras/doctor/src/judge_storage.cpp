// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "judge.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::doctor {
namespace {

Finding part_finding(const std::string& host, const std::string& message, const std::string& action) {
  return {.level = Level::failure,
          .check = "storage",
          .host = host,
          .message = message,
          .action = action,
          .remedy = Remedy::part_folder};
}

/// The digest that most ranks see; of several, the first rank's.
std::string usual_digest(const std::vector<StorageFacts>& storage) {
  std::map<std::string, int> counts;
  for (const StorageFacts& facts : storage)
    if (facts.error.empty()) ++counts[facts.digest];
  std::string usual;
  for (const StorageFacts& facts : storage)
    if (facts.error.empty() && (usual.empty() || counts[facts.digest] > counts[usual])) usual = facts.digest;
  return usual;
}

/// "most hosts", or of two halves "host h0".
std::string who_sees(const std::string& digest, const std::vector<StorageFacts>& storage,
                     const std::vector<RankFacts>& ranks) {
  if (2 * std::ranges::count(storage, digest, &StorageFacts::digest) > std::ssize(storage))
    return "most hosts";
  const auto first = std::ranges::find(storage, digest, &StorageFacts::digest) - storage.begin();
  return fmt::format("host {}", ranks[at(first)].host);
}

double load_seconds(const StorageFacts& facts, std::size_t hosts) {
  return static_cast<double>(facts.part_bytes) / facts.bytes_per_second / static_cast<double>(hosts);
}

void judge_rates(const std::vector<StorageFacts>& storage, const std::vector<Host>& hosts,
                 Findings& findings) {
  constexpr double kSlowShare = 0.3;              // of the fastest host's rate
  constexpr double kShort = 10, kPatience = 600;  // seconds of loading
  double best = 0;
  for (const Host& host : hosts) best = std::max(best, storage[at(host.ranks.front())].bytes_per_second);
  for (const Host& host : hosts) {
    const StorageFacts& facts = storage[at(host.ranks.front())];
    if (facts.bytes_per_second <= 0) continue;
    const double seconds = load_seconds(facts, hosts.size());
    if (seconds < kShort || (facts.bytes_per_second >= kSlowShare * best && seconds < kPatience)) continue;
    findings.push_back(
        {.level = Level::warning,
         .check = "storage",
         .host = host.name,
         .message = fmt::format("it reads the parts at {} while all hosts read; loading takes {}",
                                rate_text(facts.bytes_per_second), format_seconds(seconds)),
         .action = "Copy the part folder to a disk of each host, or to a faster file system.",
         .remedy = Remedy::storage});
  }
}

}  // namespace

Findings judge_storage(const std::vector<StorageFacts>& storage, const std::vector<RankFacts>& ranks,
                       const std::string& folder) {
  const std::vector<Host> hosts = hosts_of(ranks);
  const std::string usual = usual_digest(storage);
  const bool nowhere = std::ranges::none_of(
      storage, [](const StorageFacts& facts) { return facts.answered && facts.error.empty(); });
  Findings findings;
  std::vector<int> silent;
  for (const Host& host : hosts) {
    for (const int r : host.ranks)
      if (!storage[at(r)].answered) silent.push_back(r);
    const auto failed =
        std::ranges::find_if(host.ranks, [&](int r) { return !storage[at(r)].error.empty(); });
    const auto other = std::ranges::find_if(host.ranks, [&](int r) {
      return storage[at(r)].answered && storage[at(r)].error.empty() && storage[at(r)].digest != usual;
    });
    if (failed != host.ranks.end())
      findings.push_back(part_finding(
          host.name, storage[at(*failed)].error,
          nowhere ? "Name a whole folder that strata-partition build made."
                  : "Copy the part folder to the same path there, or to a file system that all hosts see."));
    else if (other != host.ranks.end())
      findings.push_back(
          part_finding(host.name,
                       fmt::format("{} holds other parts there (build {}) than on {}", folder,
                                   storage[at(*other)].build_id, who_sees(usual, storage, ranks)),
                       "Copy the same part folder to every host; strata-partition verify checks a copy."));
  }
  if (!silent.empty()) findings.push_back(no_answer("storage", silent, ranks, "reading " + folder));
  judge_rates(storage, hosts, findings);
  return findings;
}

Findings judge_output(const OutputFacts& output, const std::string& host) {
  constexpr std::int64_t kLittle = std::int64_t{1} << 30;
  const auto failure = [&](std::string message, std::string action, Remedy remedy) -> Findings {
    return {{.level = Level::failure,
             .check = "storage",
             .host = host,
             .message = std::move(message),
             .action = std::move(action),
             .remedy = remedy}};
  };
  if (!output.answered)
    return failure(fmt::format("the file system of {} did not answer", output.folder),
                   "Look at that file system (df), or name another folder with --output.", Remedy::silence);
  if (!output.obstacle.empty())
    return failure(fmt::format("the folder of the run cannot be made: {} is a file", output.obstacle),
                   "Name another folder with --output, or move that file away.", Remedy::disk_space);
  if (!output.writable)
    return failure(fmt::format("no file can be written into {}", output.folder),
                   "Name another folder with --output, or ask for the right to write.", Remedy::disk_space);
  if (output.free_bytes >= kLittle) return {};
  return {{.level = Level::warning,
           .check = "storage",
           .host = host,
           .message = fmt::format("{} has {} free for models and checkpoints", output.folder,
                                  format_bytes(output.free_bytes)),
           .action = "Free space, or name another folder with --output.",
           .remedy = Remedy::disk_space}};
}

Findings judge_plan(bool fits) {
  if (fits) return {};
  return {{.level = Level::failure,
           .check = "plan",
           .host = {},
           .message = "the run does not fit into memory; the lines above say where",
           .action = "Use more hosts, or lower --batch-size, --fanouts or --hidden.",
           .remedy = Remedy::plan}};
}

}  // namespace strata::doctor
