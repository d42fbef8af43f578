// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "gpus.hpp"
#include "report.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::doctor {
namespace {

constexpr double kLikeShare = 0.7;  // of the median of its like: less is slow

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

Finding link_finding(Level level, const std::string& host, const std::string& message) {
  return {.level = level,
          .check = "gpus",
          .host = host,
          .message = message,
          .action = "Look at nvidia-smi topo -m, nvidia-smi nvlink -s and the slot of the GPU.",
          .remedy = Remedy::gpu_links};
}

/// Pairs are alike if the driver ranks them alike, both can, or cannot, reach each other, and both do so over
/// NVLink or over the same kind of way on PCIe. A pair that has lost some of its NVLinks is still alike.
using Likeness = std::tuple<bool, int, std::string>;

Likeness likeness(const cuda::PeerLink& link) {
  return {link.access, link.kind, link.path.starts_with("NV") ? "NV" : link.path};
}

/// ", over SYS"
std::string over_path(const cuda::PeerLink& link) {
  return link.path.empty() ? std::string() : ", over " + link.path;
}

void judge_pairs(const std::vector<GpuFacts>& gpus, const std::vector<Host>& hosts, Findings& findings) {
  std::map<Likeness, std::vector<double>> rates;
  for (const Host& host : hosts)
    for (const cuda::PeerLink& link : gpus[at(host.ranks.front())].links)
      if (link.bytes_per_second > 0) rates[likeness(link)].push_back(link.bytes_per_second);
  for (const Host& host : hosts) {
    const std::vector<cuda::PeerLink>& links = gpus[at(host.ranks.front())].links;
    const bool some = std::ranges::any_of(links, &cuda::PeerLink::access);
    for (const cuda::PeerLink& link : links) {
      if (some && !link.access)
        findings.push_back(
            link_finding(Level::warning, host.name,
                         fmt::format("GPU {} cannot reach the memory of GPU {}{}, as others can", link.from,
                                     link.to, over_path(link))));
      if (link.bytes_per_second <= 0) continue;
      const double usual = median(rates[likeness(link)]);
      if (link.bytes_per_second < kLikeShare * usual)
        findings.push_back(link_finding(
            Level::warning, host.name,
            fmt::format("GPU {} copies to GPU {} at {}{}; {} is usual for such a pair", link.from, link.to,
                        rate_text(link.bytes_per_second), over_path(link), rate_text(usual))));
    }
    if (!links.empty() && !some)
      findings.push_back(
          link_finding(Level::note, host.name,
                       "its GPUs cannot reach each other's memory; striped rows stay on the host"));
  }
}

void judge_copies(const std::vector<GpuFacts>& gpus, const std::vector<RankFacts>& ranks,
                  Findings& findings) {
  constexpr double kShared = 0.5;
  std::map<std::string, std::vector<double>> rates;  // by the name of the GPU
  for (std::size_t r = 0; r < gpus.size(); ++r)
    if (gpus[r].copy_alone > 0) rates[ranks[r].gpu].push_back(gpus[r].copy_alone);
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    if (gpus[r].copy_alone <= 0) continue;
    const double usual = median(rates[ranks[r].gpu]);
    if (gpus[r].copy_alone < kLikeShare * usual)
      findings.push_back(
          link_finding(Level::warning, ranks[r].host,
                       fmt::format("rank {} copies from the host to its GPU at {}; {} is usual for a {}", r,
                                   rate_text(gpus[r].copy_alone), rate_text(usual), ranks[r].gpu)));
    else if (gpus[r].copy_together < kShared * gpus[r].copy_alone)
      findings.push_back(
          link_finding(Level::note, ranks[r].host,
                       fmt::format("rank {} copies to its GPU at {} while all do, at {} by itself", r,
                                   rate_text(gpus[r].copy_together), rate_text(gpus[r].copy_alone))));
  }
}

/// Reasons for lower clocks, as NVML numbers them.
struct Reason {
  std::uint64_t bits;
  Level level;
  const char* name;
};
constexpr Reason kReasons[] = {{0x08, Level::warning, "by the board (power or heat)"},
                               {0x20, Level::warning, "because it is hot (driver)"},
                               {0x40, Level::warning, "because it is hot (board)"},
                               {0x80, Level::warning, "by its power supply"},
                               {0x04, Level::note, "by its power limit"}};

void judge_state(const Host& host, const GpuState& state, Findings& findings) {
  if (state.uncorrected_errors > 0)
    findings.push_back(
        {.level = Level::warning,
         .check = "gpus",
         .host = host.name,
         .message = fmt::format("GPU {} has had {} uncorrected memory errors since the driver was loaded",
                                state.uuid, state.uncorrected_errors),
         .action = "Reset it (nvidia-smi -r, as root) or restart the host; leave it out if they come back.",
         .remedy = Remedy::gpu_errors});
  for (const Reason& reason : kReasons)
    if ((state.held_back & reason.bits) != 0)
      findings.push_back(
          {.level = reason.level,
           .check = "gpus",
           .host = host.name,
           .message = fmt::format("the clocks of GPU {} are lowered {}", state.uuid, reason.name),
           .action = "Look at nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER.",
           .remedy = Remedy::gpu_clocks});
  if (state.link_width > 0 && state.link_width < state.most_link_width)
    findings.push_back(link_finding(
        Level::warning, host.name,
        fmt::format("GPU {} has {} of {} PCIe lanes", state.uuid, state.link_width, state.most_link_width)));
}

bool uses(const NcclFacts& nccl, const std::string& transport) {
  return std::ranges::any_of(nccl.transports, [&](const std::string& t) { return t.starts_with(transport); });
}

Finding nccl_finding(Level level, const std::string& host, const std::string& message,
                     const std::string& action) {
  return {.level = level,
          .check = "nccl",
          .host = host,
          .message = message,
          .action = action,
          .remedy = Remedy::nccl};
}

std::string rate_or_access(const cuda::PeerLink& link) {
  if (link.bytes_per_second > 0) return fmt::format("{:.0f}", 1e-9 * link.bytes_per_second);
  return link.access ? "yes" : "no";
}

/// One row per GPU that copies, one column per GPU that is copied to.
std::vector<std::string> matrix(const std::string& title, const std::vector<cuda::PeerLink>& links,
                                std::string (*cell)(const cuda::PeerLink&)) {
  std::set<int> devices;
  for (const cuda::PeerLink& link : links) devices.insert(link.from);
  std::vector<std::string> header{title};
  for (const int device : devices) header.push_back(std::to_string(device));
  Table table(header);
  for (const int from : devices) {
    std::vector<std::string> row{std::to_string(from)};
    for (const int to : devices) {
      const auto link =
          std::ranges::find_if(links, [&](const cuda::PeerLink& l) { return l.from == from && l.to == to; });
      row.push_back(link == links.end() ? "-" : cell(*link));
    }
    table.row(row);
  }
  return lines_of(table.str());
}

/// The paths, in one line if all pairs are alike.
std::vector<std::string> describe_paths(const std::vector<cuda::PeerLink>& links) {
  const std::string& first = links.front().path;
  if (std::ranges::any_of(links, [&](const cuda::PeerLink& link) { return link.path != first; }))
    return matrix("path from, to", links, [](const cuda::PeerLink& link) {
      return link.path.empty() ? std::string("?") : link.path;
    });
  if (first.empty())
    return {"the paths between GPUs are not known (the driver's library NVML does not report them)"};
  return {fmt::format("between all GPUs over {}", first)};
}

}  // namespace

Findings judge_gpus(const std::vector<GpuFacts>& gpus, const std::vector<RankFacts>& ranks) {
  const std::vector<Host> hosts = hosts_of(ranks);
  Findings findings;
  judge_pairs(gpus, hosts, findings);
  judge_copies(gpus, ranks, findings);
  for (const Host& host : hosts) {
    const GpuFacts& facts = gpus[at(host.ranks.front())];
    for (const GpuState& state : facts.states) judge_state(host, state, findings);
    if (!facts.driver_messages.empty())
      findings.push_back(
          {.level = Level::warning,
           .check = "gpus",
           .host = host.name,
           .message = fmt::format("the driver has reported errors since the host was started: {}",
                                  fmt::join(facts.driver_messages, "; ")),
           .action = "Look up the number behind Xid; restart the host, or leave the GPU out.",
           .remedy = Remedy::gpu_errors});
  }
  return findings;
}

Findings judge_nccl(const std::vector<NcclFacts>& nccl, const std::vector<RankFacts>& ranks) {
  constexpr double kSlow = 1e9;  // bytes per second between hosts
  const std::vector<Host> hosts = hosts_of(ranks);
  Findings findings;
  for (const Host& host : hosts) {
    const auto any = [&](const std::string& transport) {
      return std::ranges::any_of(host.ranks, [&](int r) { return uses(nccl[at(r)], transport); });
    };
    const bool rdma = std::ranges::any_of(ranks[at(host.ranks.front())].interfaces, &Interface::rdma);
    if (any("NET/Socket") && rdma)
      findings.push_back(nccl_finding(
          Level::warning, host.name, "NCCL sends through sockets, although there are cards for RDMA",
          "Name the cards with NCCL_IB_HCA, and look whether /dev/infiniband may be opened."));
  }
  if (hosts.size() > 1 && !nccl.empty() && nccl.front().all_reduce > 0 && nccl.front().all_reduce < kSlow)
    findings.push_back(nccl_finding(
        Level::warning, {}, fmt::format("NCCL sums gradients at {}", rate_text(nccl.front().all_reduce)),
        "Name a faster network: -x NCCL_SOCKET_IFNAME=ib0, or NCCL_IB_HCA=mlx5_0."));
  return findings;
}

std::vector<std::string> describe_gpus(const std::vector<GpuFacts>& gpus,
                                       const std::vector<RankFacts>& ranks) {
  std::vector<std::string> lines;
  for (const Host& host : hosts_of(ranks)) {
    const GpuFacts& facts = gpus[at(host.ranks.front())];
    std::vector<std::string> alone, together;
    for (const int r : host.ranks) {
      if (gpus[at(r)].copy_alone <= 0) continue;
      alone.push_back(fmt::format("{:.1f}", 1e-9 * gpus[at(r)].copy_alone));
      together.push_back(fmt::format("{:.1f}", 1e-9 * gpus[at(r)].copy_together));
    }
    if (!alone.empty())
      lines.push_back(fmt::format("{}: GB/s from the host, each by itself {}; all at once {}{}", host.name,
                                  fmt::join(alone, " "), fmt::join(together, " "),
                                  facts.log_readable ? "" : "; the kernel's log may not be read here (Xid)"));
    if (facts.links.empty()) continue;
    const std::vector<std::string> rates = matrix("GB/s from, to", facts.links, rate_or_access),
                                   paths = describe_paths(facts.links);
    lines.insert(lines.end(), rates.begin(), rates.end());
    lines.insert(lines.end(), paths.begin(), paths.end());
  }
  return lines;
}

std::vector<std::string> describe_nccl(const std::vector<NcclFacts>& nccl) {
  std::set<std::string> transports, networks;
  for (const NcclFacts& facts : nccl) {
    transports.insert(facts.transports.begin(), facts.transports.end());
    networks.insert(facts.networks.begin(), facts.networks.end());
  }
  return {fmt::format("sum {}, all to all {} per rank; over {}{}{}", rate_text(nccl.front().all_reduce),
                      rate_text(nccl.front().all_to_all),
                      transports.empty() ? "transports that its log does not name"
                                         : fmt::format("{}", fmt::join(transports, ", ")),
                      networks.empty() ? "" : "; networks ", fmt::join(networks, ", "))};
}

}  // namespace strata::doctor
