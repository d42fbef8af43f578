// SPDX-License-Identifier: Apache-2.0
// Measures time, peak memory and edge cut of strata-partition's phases beside gpmetis on the same graph. See
// README.md.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpmetis.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/files.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace {

using namespace strata;
using Json = nlohmann::ordered_json;

struct Options {
  std::string input, json;
  int parts = 64, runs = 3, threads = 0;
  std::filesystem::path folder = "/tmp";
};

struct StrataRun {
  std::vector<partition::Phase> phases;
  Count edge_cut = 0;  ///< undirected edges
  double seconds() const {
    double sum = 0;
    for (const partition::Phase& phase : phases) sum += phase.seconds;
    return sum;
  }
};

graph::ReadOptions read_options(const Options& options) {
  graph::ReadOptions read;
  read.num_threads = options.threads;
  return read;
}

StrataRun run_strata(const Options& options, const std::filesystem::path& output, std::uint64_t seed) {
  partition::BuildOptions build;
  build.output = output;
  build.assign.num_parts = options.parts;
  build.assign.seed = seed;
  build.force = true;
  build.num_threads = options.threads;
  build.input = options.input;
  partition::StopFlag stop;
  partition::PhaseClock clock;
  graph::Graph graph = graph::read_graph(options.input, read_options(options));
  StrataRun run{{clock.end("read")}};
  partition::BuildReport report = partition::build(std::move(graph), build, stop);
  run.phases.insert(run.phases.end(), report.phases.begin(), report.phases.end());
  run.edge_cut = partition::summarize(report.record).cut_edges / 2;
  return run;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Run, typename Get>
double median_of(const std::vector<Run>& runs, Get get) {
  std::vector<double> values;
  for (const Run& run : runs) values.push_back(static_cast<double>(get(run)));
  return median(std::move(values));
}

Json to_json(const StrataRun& run) {
  Json json{{"edge_cut", run.edge_cut}, {"phases", Json::array()}};
  for (const auto& p : run.phases)
    json["phases"].push_back({{"name", p.name},
                              {"seconds", p.seconds},
                              {"cpu_seconds", p.cpu_seconds},
                              {"peak_bytes", p.peak_bytes}});
  return json;
}

Json to_json(const benchmark::GpmetisRun& run) {
  return {{"wall_seconds", run.wall_seconds},
          {"partition_seconds", run.partition_seconds},
          {"peak_bytes", run.peak_bytes},
          {"edge_cut", run.edge_cut}};
}

void print_table(const std::vector<StrataRun>& ours, const std::vector<benchmark::GpmetisRun>& theirs) {
  Table phases({"", "strata", "gpmetis", "ratio", "peak memory so far"});
  for (std::size_t i = 0; i < ours.front().phases.size(); ++i) {
    const double seconds = median_of(ours, [&](const StrataRun& r) { return r.phases[i].seconds; });
    phases.row({ours.front().phases[i].name, format_seconds(seconds), "", "",
                format_bytes(ours.front().phases[i].peak_bytes)});
    if (ours.front().phases[i].name != "assign") continue;
    const double cpu = median_of(ours, [&](const StrataRun& r) { return r.phases[i].cpu_seconds; });
    const double other_cpu = median_of(theirs, [](const auto& r) { return r.partition_seconds; });
    phases.row({"  its CPU time", format_seconds(cpu), format_seconds(other_cpu),
                fmt::format("{:.2f}", cpu / other_cpu), ""});
  }
  const double wall = median_of(ours, [](const StrataRun& r) { return r.seconds(); });
  const double other = median_of(theirs, [](const auto& r) { return r.wall_seconds; });
  phases.row({"all", format_seconds(wall), format_seconds(other), fmt::format("{:.2f}", wall / other), ""});
  const double cut = median_of(ours, [](const StrataRun& r) { return r.edge_cut; });
  const double other_cut = median_of(theirs, [](const auto& r) { return r.edge_cut; });
  const auto peak = ours.front().phases.back().peak_bytes, other_peak = theirs.front().peak_bytes;
  phases.row({"edge cut", format_count(static_cast<Count>(cut)), format_count(static_cast<Count>(other_cut)),
              fmt::format("{:.3f}", cut / other_cut), ""});
  phases.row({"peak memory", format_bytes(peak), format_bytes(other_peak),
              fmt::format("{:.2f}", static_cast<double>(peak) / static_cast<double>(other_peak)), ""});
  fmt::print("{}", phases.str());
}

/// A folder of the benchmark's own, removed at the end. An owner.
class WorkFolder {
 public:
  explicit WorkFolder(const std::filesystem::path& parent)
      : path_{parent / fmt::format("benchmark-partition-{}", getpid())} {
    std::filesystem::create_directories(path_);
  }
  ~WorkFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void run(const Options& options) {
  const WorkFolder folder{options.folder};
  std::vector<StrataRun> ours;
  std::vector<benchmark::GpmetisRun> theirs;
  for (int i = 0; i < options.runs; ++i) {  // by turns, so that other load on the machine meets both
    const auto seed = static_cast<std::uint64_t>(i);
    ours.push_back(run_strata(options, folder.path() / "parts", seed));
    if (i == 0) {
      const graph::Graph graph = graph::read_graph(options.input, read_options(options));
      benchmark::write_metis_file(graph.structure, folder.path() / "graph");
    }
    theirs.push_back(benchmark::run_gpmetis(folder.path() / "graph", options.parts, seed));
  }
  print_table(ours, theirs);
  if (options.json.empty()) return;
  Json json{{"benchmark", "partition"},
            {"input", options.input},
            {"parts", options.parts},
            {"threads", options.threads}};
  for (const StrataRun& r : ours) json["strata"].push_back(to_json(r));
  for (const benchmark::GpmetisRun& r : theirs) json["gpmetis"].push_back(to_json(r));
  write_file_atomically(options.json, json.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  Options wanted;
  try {
    options::OptionTable table;
    table.add("input", wanted.input, "An undirected graph, as strata-partition names it").required();
    table.add_as<options::Integer<int, 2, 100000>>("parts", wanted.parts, "Number of parts");
    table.add_as<options::Integer<int, 1, 100>>("runs", wanted.runs,
                                                "Runs of each, with seeds 0, 1, ...; medians are shown");
    table.add("threads", wanted.threads, "Number of threads (0: one per core)");
    table.add("folder", wanted.folder, "Where parts and gpmetis's input are written");
    table.add("json", wanted.json, "Write all runs to this file");
    const std::string help = options::read_words(
        "benchmark-partition", "Compares strata-partition build with gpmetis on the same graph\n\n", table,
        {argv + 1, argv + argc});
    if (!help.empty()) return fmt::print("{}", help), 0;
    run(wanted);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", format_error("benchmark-partition", error));
    return static_cast<int>(exit_code(error));
  }
}
