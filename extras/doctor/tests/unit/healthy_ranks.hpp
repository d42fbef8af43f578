// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <vector>

#include "judge.hpp"

namespace strata::doctor::test {

/// Ranks of hosts h0, h1, ... with nothing to complain about.
inline std::vector<RankFacts> healthy_ranks(int hosts, int ranks_per_host = 1) {
  constexpr std::int64_t kGibi = std::int64_t{1} << 30;
  std::vector<RankFacts> ranks;
  for (int host = 0; host < hosts; ++host)
    for (int rank = 0; rank < ranks_per_host; ++rank)
      ranks.push_back(
          {.host = fmt::format("h{}", host),
           .versions = {{"Strata", "Strata 1"}, {"MPI", "Open MPI v4.1.4"}, {"glibc", "glibc 2.36"}},
           .mpi_components = {"btl/tcp", "pml/ob1"},
           .processors = {0, 1, 2, 3},
           .host_processors = 4,
           .cores = 4 / ranks_per_host,
           .memory_bytes = 16 * kGibi,
           .host_memory_bytes = 64 * kGibi,
           .namespaces = {{"pid", "pid:[1]"}},
           .locked_bytes = RankFacts::kUnlimited,
           .open_files = 65536,
           .shm_free_bytes = 8 * kGibi,
           .shm_bytes = 8 * kGibi,
           .huge_pages = "madvise"});
  return ranks;
}

/// "warning limits h1 locked-memory", to compare with.
inline std::vector<std::string> shortened(const Findings& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings)
    lines.push_back(fmt::format("{} {} {} {}", enum_name(finding.level), finding.check,
                                finding.host.empty() ? "-" : finding.host, enum_name(finding.remedy)));
  return lines;
}

}  // namespace strata::doctor::test
