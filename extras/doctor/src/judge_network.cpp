// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "judge.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::doctor {
namespace {

constexpr double kSlowRate = 100e6;  // bytes per second: 1 Gbit/s or less
constexpr double kSlowShare = 0.5;   // of the median link: less is slow
constexpr double kSlowLatency = 5;   // times the median: more is slow
constexpr double kLatencyOfNote = 200e-6;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

Finding slow_link(const std::string& host, const std::string& message) {
  return {
      .level = Level::warning,
      .check = "network",
      .host = host,
      .message = message,
      .action = "Look at the cable, port and speed of that link (ethtool, ibstat), or leave the host out.",
      .remedy = Remedy::slow_link};
}

/// Reports slow links by the host that all of them have in common, or one by one.
class SlowLinks {
 public:
  SlowLinks(const std::vector<LinkRate>& links, const std::vector<Host>& hosts) : hosts_(hosts) {
    std::vector<double> rates;
    for (const LinkRate& link : links) rates.push_back(link.bytes_per_second);
    usual_ = median(rates);
    for (const LinkRate& link : links)
      if (link.bytes_per_second < std::max(kSlowRate, kSlowShare * usual_)) slow_.push_back(link);
    all_ = slow_.size() == links.size();
  }

  Findings findings() {
    if (slow_.empty()) return {};
    if (all_ && hosts_.size() > 2)
      return {slow_link("", fmt::format("hosts send each other {} or less", rate_text(fastest())))};
    Findings found;
    if (hosts_.size() > 2)
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        take(static_cast<int>(host), &LinkRate::from,
             "it sends to every other host at {} or less; {} is usual", found);
        take(static_cast<int>(host), &LinkRate::to, "every other host sends to it at {} or less; {} is usual",
             found);
      }
    for (const LinkRate& link : slow_)
      found.push_back(
          slow_link(name(link.from), fmt::format("it sends to {} at {}; {} is usual", name(link.to),
                                                 rate_text(link.bytes_per_second), rate_text(usual_))));
    return found;
  }

 private:
  const std::string& name(int host) const { return hosts_[at(host)].name; }
  double fastest() const { return std::ranges::max(slow_, {}, &LinkRate::bytes_per_second).bytes_per_second; }

  /// One finding for all links that this end of a host has, if all of them are slow.
  void take(int host, int LinkRate::*end, fmt::format_string<std::string, std::string> text,
            Findings& found) {
    std::vector<LinkRate> own, others;
    for (const LinkRate& link : slow_) (link.*end == host ? own : others).push_back(link);
    if (own.size() + 1 < hosts_.size()) return;
    const double best = std::ranges::max(own, {}, &LinkRate::bytes_per_second).bytes_per_second;
    found.push_back(slow_link(name(host), fmt::format(text, rate_text(best), rate_text(usual_))));
    slow_ = std::move(others);
  }

  const std::vector<Host>& hosts_;
  std::vector<LinkRate> slow_;
  double usual_ = 0;
  bool all_ = false;
};

Findings judge_latencies(const std::vector<LinkRate>& links, const std::vector<Host>& hosts) {
  std::vector<double> latencies;
  for (const LinkRate& link : links) latencies.push_back(link.latency_seconds);
  const double usual = median(latencies);
  Findings findings;
  for (const LinkRate& link : links) {
    if (link.from > link.to) continue;  // measured there and back
    if (link.latency_seconds < std::max(kLatencyOfNote, kSlowLatency * usual)) continue;
    findings.push_back(slow_link(hosts[at(link.from)].name,
                                 fmt::format("a message to {} takes {}; {} is usual", hosts[at(link.to)].name,
                                             format_seconds(link.latency_seconds), format_seconds(usual))));
  }
  return findings;
}

/// Whether another interface of the host would be faster than the one that carries the messages.
void judge_carrier(const Host& host, const std::string& carrier, const std::vector<Interface>& interfaces,
                   Findings& findings) {
  constexpr double kFaster = 2;
  const auto used = std::ranges::find(interfaces, carrier, &Interface::name);
  if (used == interfaces.end() || used->bits_per_second == 0) return;
  const auto best = std::ranges::max_element(interfaces, {}, &Interface::bits_per_second);
  if (best->bits_per_second < kFaster * used->bits_per_second) return;
  findings.push_back(
      {.level = Level::warning,
       .check = "network",
       .host = host.name,
       .message = fmt::format("messages go over {} ({:.0f} Gbit/s), while {} has {:.0f} Gbit/s", used->name,
                              1e-9 * used->bits_per_second, best->name, 1e-9 * best->bits_per_second),
       .action =
           best->rdma
               ? std::string("mpirun --mca pml ucx, or an Open MPI that was built with UCX.")
               : fmt::format("mpirun --mca btl_tcp_if_include {0} --mca oob_tcp_if_include {0}; for NCCL "
                             "-x NCCL_SOCKET_IFNAME={0}.",
                             best->name),
       .remedy = Remedy::network});
}

void judge_together(const NetworkFacts& network, Findings& findings) {
  constexpr double kHeld = 0.3;  // a switch that serves all hosts at once gives more
  double least = network.links.front().bytes_per_second;
  for (const LinkRate& link : network.links) least = std::min(least, link.bytes_per_second);
  const double together = network.all_to_all_bytes_per_second;
  if (together <= 0 || together >= kHeld * least) return;
  findings.push_back(
      {.level = Level::note,
       .check = "network",
       .host = {},
       .message = fmt::format("while all hosts send to all, each sends {}; a pair on its own {} or more",
                              rate_text(together), rate_text(least)),
       .action = "Ask for hosts that are near each other (Slurm: --switches=1).",
       .remedy = Remedy::slow_link});
}

}  // namespace

std::string carrier_of(const std::vector<Interface>& before, const std::vector<Interface>& after,
                       std::int64_t sent_bytes) {
  std::string carrier;
  std::int64_t most = sent_bytes / 2;
  for (const Interface& now : after) {
    const auto earlier = std::ranges::find(before, now.name, &Interface::name);
    if (earlier == before.end() || now.sent_bytes - earlier->sent_bytes <= most) continue;
    most = now.sent_bytes - earlier->sent_bytes;
    carrier = now.name;
  }
  return carrier;
}

Findings judge_network(const NetworkFacts& network, const std::vector<RankFacts>& ranks) {
  if (network.links.empty()) return {};
  const std::vector<Host> hosts = hosts_of(ranks);
  Findings findings = SlowLinks(network.links, hosts).findings();
  for (Finding& finding : judge_latencies(network.links, hosts)) findings.push_back(std::move(finding));
  judge_together(network, findings);
  for (std::size_t host = 0; host < std::min(hosts.size(), network.carriers.size()); ++host)
    judge_carrier(hosts[host], network.carriers[host], ranks[at(hosts[host].ranks.front())].interfaces,
                  findings);
  return findings;
}

Findings judge_clocks(const std::vector<ClockOffset>& offsets, const std::vector<RankFacts>& ranks) {
  constexpr double kFar = 1;  // seconds
  const std::vector<Host> hosts = hosts_of(ranks);
  Findings findings;
  for (std::size_t host = 0; host < std::min(hosts.size(), offsets.size()); ++host) {
    if (std::abs(offsets[host].seconds) - offsets[host].error_seconds < kFar) continue;
    findings.push_back({.level = Level::warning,
                        .check = "clocks",
                        .host = hosts[host].name,
                        .message = fmt::format(
                            "its clock is {} {} that of {}", format_seconds(std::abs(offsets[host].seconds)),
                            offsets[host].seconds > 0 ? "ahead of" : "behind", hosts.front().name),
                        .action = "Start chronyd or ntpd there (timedatectl set-ntp true).",
                        .remedy = Remedy::clocks});
  }
  return findings;
}

}  // namespace strata::doctor
