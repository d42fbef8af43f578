// SPDX-License-Identifier: Apache-2.0
// Measures batches::load_parts against a plain parallel read of the same files. See README.md.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "plain_read.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/host_array.hpp"
#include "strata/util/error.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace strata::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string graph;
  int runs = 5;
  bool edge_ids = false, in_degrees = false;
  std::string json;
};

std::string read(Arguments& arguments, const std::vector<std::string>& words) {
  options::OptionTable table;
  table.add("graph", arguments.graph, "Partition directory").required();
  table.add_as<options::Integer<int, 1>>("runs", arguments.runs, "Runs of each way of reading");
  table.add("edge-ids", arguments.edge_ids, "Load them, too: then all of the files is read");
  table.add("in-degrees", arguments.in_degrees, "Load those of all nodes, as GCN needs them");
  table.add("json", arguments.json, "File for the results");
  return options::read_words("benchmark_loading", "Time of loading parts from the page cache\n\n", table,
                             words);
}

/// Bytes of the parts that load() reads on a single machine.
Count bytes_to_load(const graph::Manifest& manifest, const store::LoadOptions& options) {
  const Count feature_bytes = manifest.feature_row_bytes();
  const Count node_bytes = 8 + 8 + (manifest.has_labels ? 4 : 0) + feature_bytes;
  const Count splits = manifest.num_train + manifest.num_valid + manifest.num_test;
  return manifest.book.num_nodes() * node_bytes + manifest.num_edges * (options.edge_ids ? 16 : 8) +
         splits * 8 + manifest.num_train * 8;
}

/// One way of reading: its seconds per run, and the bytes that it moves.
struct Series {
  std::string name;
  Count bytes = 0;
  std::vector<double> seconds;

  double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  double rate() const { return static_cast<double>(bytes) / median(); }
};

struct Results {
  int ranks = 0, threads = 0;
  Series plain, regions, load, unverified;
  std::vector<double> ratios;        ///< of the rates of load and plain, run by run
  std::vector<double> verify_costs;  ///< seconds of load by those without verifying, run by run
};

class Benchmark {
 public:
  Benchmark(const Arguments& arguments, const comm::World& world)
      : arguments_(arguments),
        world_(world),
        topology_(comm::discover(world.communicator(), {.compute = comm::TopologyOptions::Compute::cpu})),
        machine_(world.communicator(), topology_),
        manifest_(graph::read_manifest(std::filesystem::path(arguments.graph))),
        plain_(part_paths()),
        pool_(comm::resources_of(machine_).cores) {
    if (topology_.num_machines() > 1)
      throw InputError("this benchmark runs on one machine", "Start all ranks on one host.");
  }

  /// Runs all ways in turn, so that other load on the host affects all. The first, untimed read brings the
  /// files into the page cache.
  Results run() {
    const store::LoadOptions options{.edge_ids = arguments_.edge_ids, .in_degrees = arguments_.in_degrees};
    store::LoadOptions unverified = options;
    unverified.verify_parts = false;
    Results results{.ranks = machine_.size(),
                    .threads = pool_.num_threads(),
                    .plain = {"plain read", plain_.total_bytes(), {}},
                    .regions = {"empty regions of that size", 0, {}},
                    .load = {"load_parts", bytes_to_load(manifest_, options), {}},
                    .unverified = {"the same without verifying", bytes_to_load(manifest_, options), {}},
                    .ratios = {},
                    .verify_costs = {}};
    plain_.run(machine_, pool_);
    for (int run = 0; run < arguments_.runs; ++run) {
      results.plain.seconds.push_back(plain_.run(machine_, pool_));
      const bool verified_first = run % 2 == 0;
      if (verified_first) results.load.seconds.push_back(load(options, results.regions.bytes));
      results.unverified.seconds.push_back(load(unverified, results.regions.bytes));
      if (!verified_first) results.load.seconds.push_back(load(options, results.regions.bytes));
      results.regions.seconds.push_back(make_regions(results.regions.bytes));
      results.ratios.push_back(static_cast<double>(results.load.bytes) / results.load.seconds.back() *
                               results.plain.seconds.back() / static_cast<double>(results.plain.bytes));
      results.verify_costs.push_back(results.load.seconds.back() / results.unverified.seconds.back());
    }
    return results;
  }

  const comm::Machine& machine() const { return machine_; }
  void close() { machine_.close(); }

 private:
  std::vector<std::filesystem::path> part_paths() const {
    std::vector<std::filesystem::path> paths;
    for (int part = 0; part < manifest_.book.num_parts(); ++part)
      paths.push_back(graph::part_path(arguments_.graph, part));
    return paths;
  }

  template <typename Work>
  double seconds_of(Work&& work) const {
    machine_.barrier();
    const auto start = Clock::now();
    work();
    machine_.barrier();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  /// `host_bytes` becomes what the loaded graph takes.
  double load(const store::LoadOptions& options, Count& host_bytes) {
    std::optional<store::MachineGraph> graph;
    const double seconds = seconds_of([&] {
      graph.emplace(batches::load_parts(std::filesystem::path(arguments_.graph),
                                        {&world_.communicator(), &topology_, &machine_}, options));
    });
    host_bytes = 0;
    for (const auto& row : graph->plan()) host_bytes += row.bytes;
    graph->close(machine_);
    return seconds;
  }

  /// Times one region of load()'s size: its pages are taken from the system where several ranks share them.
  double make_regions(Count bytes) const {
    std::optional<tensor::HostRegion> region;
    return seconds_of(
        [&] { region.emplace(tensor::HostRegion::create(machine_, at(bytes), "the regions")); });
  }

  const Arguments& arguments_;
  const comm::World& world_;
  comm::Topology topology_;
  comm::Machine machine_;
  graph::Manifest manifest_;
  PlainRead plain_;
  ThreadPool pool_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The ratio of the rates if the regions had existed before: what only reading and checking reach.
double ratio_without_regions(const Results& r) {
  const double seconds = r.load.median() - r.regions.median();
  return static_cast<double>(r.load.bytes) / seconds / r.plain.rate();
}

void print_table(const Results& r) {
  fmt::print("{} ranks of {} threads; medians of {} runs\n", r.ranks, r.threads, r.plain.seconds.size());
  Table table({"", "bytes", "seconds", "GB/s"});
  for (const Series* series : {&r.plain, &r.load, &r.unverified, &r.regions})
    table.row({series->name, format_bytes(series->bytes), fmt::format("{:.3f}", series->median()),
               fmt::format("{:.2f}", series->rate() / 1e9)});
  fmt::print("{}rate of load to plain read: {:.2f} (run by run {:.2f}); without the regions: {:.2f}\n",
             table.str(), r.load.rate() / r.plain.rate(), fmt::join(r.ratios, " "), ratio_without_regions(r));
  fmt::print("time of load by that without verifying: {:.3f} (run by run {:.2f}), of the medians {:.3f}\n",
             median(r.verify_costs), fmt::join(r.verify_costs, " "), r.load.median() / r.unverified.median());
}

nlohmann::json to_json(const Results& r, const Arguments& arguments) {
  nlohmann::json json{{"graph", arguments.graph},
                      {"edge_ids", arguments.edge_ids},
                      {"in_degrees", arguments.in_degrees},
                      {"ranks", r.ranks},
                      {"threads_per_rank", r.threads},
                      {"ratio", r.load.rate() / r.plain.rate()},
                      {"median_of_ratios", median(r.ratios)},
                      {"ratio_without_regions", ratio_without_regions(r)},
                      {"median_of_verify_costs", median(r.verify_costs)},
                      {"results", nlohmann::json::array()}};
  for (const Series* series : {&r.plain, &r.load, &r.unverified, &r.regions})
    json["results"].push_back({{"name", series->name},
                               {"bytes", series->bytes},
                               {"seconds", series->seconds},
                               {"median_seconds", series->median()},
                               {"bytes_per_second", series->rate()}});
  return json;
}

void write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (!file || std::fputs(text.c_str(), file.get()) < 0) throw IoError("cannot write " + path);
}

void run(const Arguments& arguments, const comm::World& world) {
  Benchmark benchmark(arguments, world);
  const Results results = benchmark.run();
  if (world.rank() == 0) {
    print_table(results);
    if (!arguments.json.empty()) write_file(arguments.json, to_json(results, arguments).dump(2));
  }
  benchmark.close();
}

}  // namespace
}  // namespace strata::benchmark

int main(int argc, char** argv) {
  strata::benchmark::Arguments arguments;
  try {
    if (const std::string help = strata::benchmark::read(arguments, {argv + 1, argv + argc}); !help.empty())
      return fmt::print("{}", help), 0;
    const strata::comm::World world(&argc, &argv);
    strata::benchmark::run(arguments, world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", strata::format_error("benchmark_loading", error));
    return static_cast<int>(strata::exit_code(error));
  }
}
