// Time of a minibatch and sampled edges a second, on one rank. See README.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "strata/comm/machine.hpp"
#include "strata/graph/graph.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string graph = "synthetic:products,nodes=250000,features=1";
  std::vector<int> fanouts{15, 10, 5};
  Count batch = 1024;
  std::string device = "auto";
  int threads = 0;
  int warm_up = 5;
  int runs = 50;
  bool transpose = false;
  bool edge_ids = false;
  bool json = false;
};

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--graph", arguments.graph, "what strata-partition takes as --input")->capture_default_str();
  app.add_option("--fanouts", arguments.fanouts, "from the seeds outwards; -1: all neighbours")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--batch", arguments.batch, "seeds of a minibatch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--device", arguments.device)
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "CPU threads; 0: all cores")->capture_default_str();
  app.add_option("--warm-up", arguments.warm_up, "minibatches before the clock runs")->capture_default_str();
  app.add_option("--runs", arguments.runs, "minibatches that are timed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--transpose", arguments.transpose, "with the transposes that training needs");
  app.add_flag("--edge-ids", arguments.edge_ids);
  app.add_flag("--json", arguments.json);
}

comm::TopologyOptions::Compute compute_of(const std::string& device) {
  if (device == "cpu") return comm::TopologyOptions::Compute::cpu;
  if (device == "cuda") return comm::TopologyOptions::Compute::cuda;
  return comm::TopologyOptions::Compute::automatic;
}

struct Sample {
  double seconds;
  Count edges, inputs;
};

/// Seeds of step s: a slice of the training nodes in a keyed random order.
std::vector<NodeId> seeds_of(std::span<const NodeId> train, Count batch, std::uint64_t step) {
  const auto size = static_cast<std::uint64_t>(train.size());
  std::vector<NodeId> seeds;
  const Shuffle order(size, mix64(1));
  for (std::uint64_t i = 0; i < std::min(size, static_cast<std::uint64_t>(batch)); ++i) {
    seeds.push_back(train[order((step * static_cast<std::uint64_t>(batch) + i) % size)]);
  }
  return seeds;
}

std::vector<Sample> measure(const store::MachineGraph& graph, const Arguments& arguments, ThreadPool& pool) {
  const Device device = graph.view().device;
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const auto sampler = sampling::make_sampler(graph.view(),
                                              {.fanouts = arguments.fanouts,
                                               .max_seeds = arguments.batch,
                                               .edge_ids = arguments.edge_ids,
                                               .transpose = arguments.transpose},
                                              {}, 1, pool);
  std::vector<Sample> samples;
  for (int run = 0; run < arguments.warm_up + arguments.runs; ++run) {
    const auto step = static_cast<std::uint32_t>(run);
    const auto seeds = seeds_of(graph.train_nodes(), arguments.batch, step);
    const auto start = Clock::now();
    const sampling::MiniBatch batch = sampler->sample(seeds, {.seed = 1, .step = step}, 0, stream);
    stream.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (run >= arguments.warm_up) samples.push_back({seconds, batch.num_edges(), batch.num_inputs()});
  }
  return samples;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

nlohmann::json summary(const std::vector<Sample>& samples, const store::MachineGraph& graph,
                       const Arguments& arguments, int num_threads) {
  std::vector<double> ms, rates;
  double edges = 0, inputs = 0;
  for (const Sample& sample : samples) {
    ms.push_back(sample.seconds * 1e3);
    rates.push_back(static_cast<double>(sample.edges) / sample.seconds);
    edges += static_cast<double>(sample.edges) / static_cast<double>(samples.size());
    inputs += static_cast<double>(sample.inputs) / static_cast<double>(samples.size());
  }
  return {{"graph", arguments.graph},
          {"nodes", graph.view().num_nodes},
          {"edges", graph.view().indices.size},
          {"device", graph.view().device.str()},
          {"threads", num_threads},
          {"fanouts", arguments.fanouts},
          {"batch", arguments.batch},
          {"transpose", arguments.transpose},
          {"edge_ids", arguments.edge_ids},
          {"edges_a_minibatch", edges},
          {"inputs_a_minibatch", inputs},
          {"ms_a_minibatch",
           {{"lower_quartile", quantile(ms, 0.25)},
            {"median", quantile(ms, 0.5)},
            {"upper_quartile", quantile(ms, 0.75)}}},
          {"edges_a_second", quantile(rates, 0.5)}};
}

void print_table(const nlohmann::json& result) {
  Table table({"device", "fanouts", "batch", "edges", "inputs", "ms (quartiles)", "M edges/s"});
  const auto& ms = result["ms_a_minibatch"];
  table.row({result["device"].get<std::string>(),
             fmt::format("{}", fmt::join(result["fanouts"].get<std::vector<int>>(), ",")),
             format_count(result["batch"].get<Count>()),
             format_count(static_cast<Count>(result["edges_a_minibatch"].get<double>())),
             format_count(static_cast<Count>(result["inputs_a_minibatch"].get<double>())),
             fmt::format("{:.3f} ({:.3f}-{:.3f})", ms["median"].get<double>(),
                         ms["lower_quartile"].get<double>(), ms["upper_quartile"].get<double>()),
             fmt::format("{:.1f}", result["edges_a_second"].get<double>() / 1e6)});
  fmt::print("{}", table.str());
}

void run(const Arguments& arguments, const comm::World& world) {
  if (world.size() != 1) throw InputError("this benchmark runs on one rank", "Start it without mpirun.");
  const comm::Topology topology =
      comm::discover(world.communicator(), {.compute = compute_of(arguments.device)});
  comm::Machine machine(world.communicator(), topology);
  auto input = std::make_unique<graph::Graph>(graph::read_graph(arguments.graph));
  store::LoadOptions load{.edge_ids = arguments.edge_ids};
  if (machine.device().is_cuda())
    load.gpu_budget_bytes = cuda::device_memory(machine.device().index).free_bytes / 2;
  store::MachineGraph graph = store::MachineGraph::from_graph(std::move(input), machine, load);
  if (graph.train_nodes().empty())
    throw InputError("the graph has no training nodes", "Give it some: train=0.5");
  {
    ThreadPool pool(arguments.threads);
    const auto result = summary(measure(graph, arguments, pool), graph, arguments, pool.num_threads());
    if (arguments.json)
      fmt::print("{}\n", result.dump(2));
    else
      print_table(result);
  }
  graph.close(machine);
  machine.close();
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::Arguments arguments;
  CLI::App app("Time of sampling a minibatch");
  strata::add_options(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    const strata::comm::World world(&argc, &argv);
    strata::run(arguments, world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", strata::format_error("benchmark_sampling", error));
    return static_cast<int>(strata::exit_code(error));
  }
}
