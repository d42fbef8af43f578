// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "facts.hpp"
#include "strata/doctor/finding.hpp"

/// Judgments of facts. Pure functions: all ranks have the same facts and come to the same findings.
namespace strata::doctor {

using Findings = std::vector<Finding>;

/// Ranks of a host.
struct Host {
  std::string name = {};
  std::vector<int> ranks = {};
};
/// The hosts in order of their first ranks.
std::vector<Host> hosts_of(const std::vector<RankFacts>& ranks);

Findings judge_versions(const std::vector<RankFacts>& ranks);
/// Judges processors, memory, control groups and GPUs.
Findings judge_ranks(const std::vector<RankFacts>& ranks);
Findings judge_limits(const std::vector<RankFacts>& ranks);

/// The part folder and the folder of the run as a rank sees them.
struct StorageFacts {
  std::string error = {};     ///< why the folder cannot be read; empty: it can
  std::string build_id = {};  ///< of the parts; empty: there are none
  std::string digest = {};    ///< of the manifest and of the sizes of the parts' files
  std::int64_t part_bytes = 0;
  double bytes_per_second = 0;  ///< that its host read while all hosts did; 0: not measured
  bool direct = false;          ///< past the memory of the host
  bool answered = true;
};
/// A rate as text: "2.5 MB/s", "12.00 GB/s"; for links and disks alike.
std::string rate_text(double bytes_per_second);

/// What is known of the folder that the first rank writes into.
struct OutputFacts {
  std::string folder = {};
  bool answered = true;  ///< its file system; if not, nothing else is known
  bool writable = true;
  std::int64_t free_bytes = 0;
  std::string obstacle = {};  ///< a file that lies where the folder or one above it would be made
};
Findings judge_storage(const std::vector<StorageFacts>& storage, const std::vector<RankFacts>& ranks,
                       const std::string& folder);
Findings judge_output(const OutputFacts& output, const std::string& host);
Findings judge_plan(bool fits);

/// Messages between two hosts, one way.
struct LinkRate {
  int from = 0, to = 0;  ///< positions in hosts_of()
  double latency_seconds = 0;
  double bytes_per_second = 0;
};
struct NetworkFacts {
  std::vector<LinkRate> links = {};
  double ring_bytes_per_second = 0;        ///< of the slowest host, while each sends to the next
  double all_to_all_bytes_per_second = 0;  ///< of the slowest host, while each sends to all
  /// The interface that the messages left through, by host; empty: unknown.
  std::vector<std::string> carriers = {};
};
Findings judge_network(const NetworkFacts& network, const std::vector<RankFacts>& ranks);
/// The interface that sent the most between two looks, if that is most of what was sent by MPI; else empty.
std::string carrier_of(const std::vector<Interface>& before, const std::vector<Interface>& after,
                       std::int64_t sent_bytes);

/// The offset of a host's clock from the first host's.
struct ClockOffset {
  double seconds = 0, error_seconds = 0;
};
Findings judge_clocks(const std::vector<ClockOffset>& offsets, const std::vector<RankFacts>& ranks);
Findings judge_numa(const std::vector<RankFacts>& ranks);

/// The finding about ranks that did not answer a check in time.
Finding no_answer(const std::string& check, const std::vector<int>& silent,
                  const std::vector<RankFacts>& ranks, const std::string& what);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StorageFacts, error, build_id, digest, part_bytes, bytes_per_second,
                                   direct, answered)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutputFacts, folder, answered, writable, free_bytes, obstacle)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkRate, from, to, latency_seconds, bytes_per_second)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NetworkFacts, links, ring_bytes_per_second, all_to_all_bytes_per_second,
                                   carriers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClockOffset, seconds, error_seconds)

}  // namespace strata::doctor
