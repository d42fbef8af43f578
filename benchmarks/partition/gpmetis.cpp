// SPDX-License-Identifier: Apache-2.0
#include "gpmetis.hpp"

#include <fmt/format.h>
#include <fmt/os.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <regex>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::benchmark {
namespace {

/// Calls visit(u) for the distinct neighbors of v but v itself; lists are ascending.
template <typename Visit>
void visit_neighbors(const graph::CscGraph& graph, NodeId v, Visit visit) {
  NodeId last = -1;
  for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v) + 1]; ++e) {
    const NodeId u = graph.indices[at(e)];
    if (u != v && u != last) visit(u);
    last = u;
  }
}

double number_after(const std::string& text, const std::string& pattern) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(pattern + R"(\s*([0-9.]+))"))) {
    throw InputError("gpmetis printed nothing like \"" + pattern + "\"");
  }
  return std::stod(match[1]);
}

}  // namespace

void write_metis_file(const graph::CscGraph& graph, const std::filesystem::path& path) {
  Count entries = 0;
  for (NodeId v = 0; v < graph.num_nodes; ++v) visit_neighbors(graph, v, [&](NodeId) { ++entries; });
  auto file = fmt::output_file(path.string());
  file.print("{} {}\n", graph.num_nodes, entries / 2);
  for (NodeId v = 0; v < graph.num_nodes; ++v) {
    visit_neighbors(graph, v, [&](NodeId u) { file.print("{} ", u + 1); });
    file.print("\n");
  }
}

GpmetisRun run_gpmetis(const std::filesystem::path& graph_file, int num_parts, std::uint64_t seed) {
  const std::string log = graph_file.string() + ".log";
  const std::string command =
      fmt::format("exec gpmetis -seed={} '{}' {} > '{}' 2>&1", seed, graph_file.string(), num_parts, log);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  if (status != 0)
    throw InputError("gpmetis failed: " + read_file(log), "Install it (Debian: apt-get install metis).");
  const std::string text = read_file(log);
  return {.wall_seconds = wall.count(),
          .partition_seconds = number_after(text, "Partitioning:"),
          .peak_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024,
          .edge_cut = static_cast<Count>(number_after(text, "Edgecut:"))};
}

}  // namespace strata::benchmark
