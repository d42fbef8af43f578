// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "report.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::doctor {
namespace {

std::string bytes_or_unlimited(std::int64_t bytes) {
  return bytes == RankFacts::kUnlimited ? "unlimited" : format_bytes(bytes);
}

/// A text for each host, from the facts of its first rank.
template <typename Text>
std::vector<std::string> texts_of(const std::vector<Host>& hosts, Text&& text) {
  std::vector<std::string> texts;
  for (const Host& host : hosts) texts.push_back(text(host));
  return texts;
}

std::string gpus_of(const Host& host, const std::vector<RankFacts>& ranks) {
  const RankFacts& first = ranks[at(host.ranks.front())];
  if (first.visible_gpus == 0) return "no GPU";
  if (first.gpu.empty()) return counted(first.visible_gpus, "GPU");
  return fmt::format("{} {}", first.visible_gpus, first.gpu);
}

}  // namespace

std::string rate_text(double bytes_per_second) {
  return bytes_per_second < 1e9 ? fmt::format("{:.1f} MB/s", 1e-6 * bytes_per_second)
                                : fmt::format("{:.2f} GB/s", 1e-9 * bytes_per_second);
}

std::vector<std::string> lines_by_host(const std::vector<Host>& hosts,
                                       const std::vector<std::string>& texts) {
  std::vector<std::string> different;
  for (const std::string& text : texts)
    if (std::ranges::find(different, text) == different.end()) different.push_back(text);
  if (different.size() == 1) return different;
  std::vector<std::string> lines;
  for (const std::string& text : different) {
    std::vector<std::string> names;
    for (std::size_t host = 0; host < hosts.size(); ++host)
      if (texts[host] == text) names.push_back(hosts[host].name);
    lines.push_back(fmt::format("{}: {}", fmt::join(names, ", "), text));
  }
  return lines;
}

std::vector<std::string> describe_versions(const std::vector<RankFacts>& ranks) {
  const std::vector<Host> hosts = hosts_of(ranks);
  return lines_by_host(hosts, texts_of(hosts, [&](const Host& host) {
                         std::vector<std::string> versions;
                         for (const auto& [library, version] : ranks[at(host.ranks.front())].versions)
                           versions.push_back(version);
                         return fmt::format("{}", fmt::join(versions, ", "));
                       }));
}

std::vector<std::string> describe_ranks(const std::vector<RankFacts>& ranks) {
  const std::vector<Host> hosts = hosts_of(ranks);
  return lines_by_host(hosts, texts_of(hosts, [&](const Host& host) {
                         const RankFacts& first = ranks[at(host.ranks.front())];
                         std::int64_t memory = first.memory_bytes;
                         for (const int r : host.ranks) memory = std::min(memory, ranks[at(r)].memory_bytes);
                         // Rounded, so that similar hosts share a line.
                         return fmt::format(
                             "{} on {}, {} and {:.0f} GiB per rank; {}",
                             counted(std::ssize(host.ranks), "rank"),
                             counted(first.host_processors, "processor"), counted(first.cores, "core"),
                             std::ldexp(static_cast<double>(memory), -30), gpus_of(host, ranks));
                       }));
}

std::vector<std::string> describe_limits(const std::vector<RankFacts>& ranks) {
  const std::vector<Host> hosts = hosts_of(ranks);
  return lines_by_host(
      hosts, texts_of(hosts, [&](const Host& host) {
        const RankFacts& first = ranks[at(host.ranks.front())];
        return fmt::format(
            "locked memory {}, {} open files, /dev/shm {}, huge pages {}",
            bytes_or_unlimited(first.locked_bytes),
            first.open_files == RankFacts::kUnlimited ? "any number of" : std::to_string(first.open_files),
            format_bytes(first.shm_bytes), first.huge_pages.empty() ? "unknown" : first.huge_pages);
      }));
}

std::vector<std::string> describe_network(const NetworkFacts& network, const std::vector<RankFacts>& ranks) {
  const std::vector<Host> hosts = hosts_of(ranks);
  std::string mpi;  // of one rank without a launcher: none
  if (!ranks.front().mpi_components.empty())
    mpi = fmt::format("{}, MPI_THREAD_MULTIPLE, {}", fmt::join(ranks.front().mpi_components, " "),
                      ranks.front().cuda_aware ? "CUDA-aware" : "not CUDA-aware");
  if (network.links.empty()) return {"one host: nothing to measure" + (mpi.empty() ? "" : "; " + mpi)};
  const auto slowest = std::ranges::min(network.links, {}, &LinkRate::bytes_per_second);
  const auto fastest = std::ranges::max(network.links, {}, &LinkRate::bytes_per_second);
  const auto latest = std::ranges::max(network.links, {}, &LinkRate::latency_seconds);
  const auto name = [&](int host) { return hosts[at(host)].name; };
  std::vector<std::string> lines{
      fmt::format("{} to {} between pairs of hosts (least: {} to {}), latency up to {} ({} and {})",
                  rate_text(slowest.bytes_per_second), rate_text(fastest.bytes_per_second),
                  name(slowest.from), name(slowest.to), format_seconds(latest.latency_seconds),
                  name(latest.from), name(latest.to)),
      fmt::format("all at once, each host sends {} to the next, or {} to all others",
                  rate_text(network.ring_bytes_per_second), rate_text(network.all_to_all_bytes_per_second))};
  const auto over = texts_of(hosts, [&](const Host& host) {
    const std::string& carrier = network.carriers[at(&host - hosts.data())];
    return carrier.empty() ? std::string("an unknown interface") : carrier;
  });
  for (const std::string& line : lines_by_host(hosts, over))
    lines.push_back("over " + line + (mpi.empty() ? "" : ", " + mpi));
  return lines;
}

std::vector<std::string> describe_clocks(const std::vector<ClockOffset>& offsets) {
  if (offsets.size() < 2) return {"one host"};
  double most = 0, error = 0;
  for (const ClockOffset& offset : offsets) {
    most = std::max(most, std::abs(offset.seconds));
    error = std::max(error, offset.error_seconds);
  }
  return {fmt::format("within {} of the first host's (give or take {})", format_seconds(most),
                      format_seconds(error))};
}

std::vector<std::string> describe_output(const OutputFacts& output) {
  if (!output.answered) return {output.folder + ": no answer"};
  if (output.free_bytes == std::numeric_limits<std::int64_t>::max())
    return {output.folder + ": its file system does not report how much is free"};
  return {fmt::format("{}: {} free", output.folder, format_bytes(output.free_bytes))};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> describe_storage(const std::vector<StorageFacts>& storage,
                                          const std::vector<RankFacts>& ranks, const std::string& folder) {
  const std::vector<Host> hosts = hosts_of(ranks);
  double least = 0, sum = 0;
  const StorageFacts* first = nullptr;
  for (const Host& host : hosts) {
    const StorageFacts& facts = storage[at(host.ranks.front())];
    if (facts.bytes_per_second <= 0) continue;
    least = first == nullptr ? facts.bytes_per_second : std::min(least, facts.bytes_per_second);
    sum += facts.bytes_per_second;
    if (first == nullptr) first = &facts;
  }
  if (first == nullptr) return {folder + " could not be read"};
  const std::string loading = format_seconds(static_cast<double>(first->part_bytes) / sum);
  const char* perhaps = first->direct ? "" : ", perhaps from memory";
  const std::string rate = hosts.size() == 1
                               ? fmt::format("read at {}{}", rate_text(sum), perhaps)
                               : fmt::format("read by all hosts at once at {} ({} per host or more{})",
                                             rate_text(sum), rate_text(least), perhaps);
  return {fmt::format("{}: {}, {}; loading takes about {}", folder, format_bytes(first->part_bytes), rate,
                      loading)};
}

}  // namespace strata::doctor
