// SPDX-License-Identifier: Apache-2.0
// Measures the time of a minibatch and sampled edges per second, on one rank. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/options.hpp"
#include "strata/util/text.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string graph = "synthetic:products,nodes=250000,features=1";
  std::vector<int> fanouts{15, 10, 5};
  sampling::Method sampler = sampling::Method::uniform;
  bool replace = false;
  bool labor_dependent = false;
  Count batch = 1024;
  comm::TopologyOptions::Compute device = comm::TopologyOptions::Compute::automatic;
  std::string placement = "auto";
  int threads = 0;
  int warm_up = 5;
  int runs = 50;
  int in_flight = 2;
  bool transpose = false;
  bool edge_ids = false;
  bool strided = false;
  bool no_compact = false;
  bool sorted = false;
  bool json = false;
};

std::string read(Arguments& a, const std::vector<std::string>& words) {
  using AtLeastOne = options::Integer<int, 1>;
  options::OptionTable table;
  table.add("graph", a.graph, "What strata-partition takes as --input");
  table.add("fanouts", a.fanouts, "Neighbors per hop, from the seeds outwards; -1: all neighbors");
  table.add("sampler", a.sampler, "Sampler of strata-train; weighted needs a graph with weights");
  table.add("replace", a.replace, "Sample with replacement");
  table.add("labor-dependent", a.labor_dependent, "Let labor draw the same numbers in all layers");
  table.add_as<options::Integer<Count, 1>>("batch", a.batch, "Seeds of a minibatch");
  table.add("device", a.device, "Device that samples");
  table.add("placement", a.placement, "Placement as strata-train has it");
  table.add("threads", a.threads, "CPU threads; 0: all cores");
  table.add("warm-up", a.warm_up, "Minibatches before the clock runs");
  table.add_as<AtLeastOne>("runs", a.runs, "Minibatches that are timed");
  table.add_as<AtLeastOne>(
      "in-flight", a.in_flight,
      "Minibatches that are begun before the first is finished; 1: the time of one alone");
  table.add("strided", a.strided, "Make edges in fixed-stride lists, as GPUs train with them");
  table.add("no-compact", a.no_compact, "Leave the last hop as global ids: neither unique nor relabeled");
  table.add("transpose", a.transpose, "Make the transposes that training needs");
  table.add("sorted", a.sorted, "Sort the input nodes, too");
  table.add("edge-ids", a.edge_ids, "Return the ids of edges");
  table.add("json", a.json, "Print JSON");
  return options::read_words("benchmark_sampling", "Time of sampling a minibatch\n\n", table, words);
}

struct Sample {
  double seconds;
  Count edges, inputs;
};

/// Seeds of step s: a slice of the training nodes in a keyed random order, or of all nodes if a batch is
/// larger.
std::vector<NodeId> seeds_of(const store::MachineGraph& graph, Count batch, std::uint64_t step) {
  const std::span<const NodeId> train = graph.train_nodes();
  const bool from_train = std::ssize(train) >= batch;
  const auto size = static_cast<std::uint64_t>(from_train ? std::ssize(train) : graph.view().num_nodes);
  std::vector<NodeId> seeds;
  const Shuffle order(size, mix64(1));
  for (std::uint64_t i = 0; i < std::min(size, static_cast<std::uint64_t>(batch)); ++i) {
    const std::uint64_t position = order((step * static_cast<std::uint64_t>(batch) + i) % size);
    seeds.push_back(from_train ? train[position] : static_cast<NodeId>(position));
  }
  return seeds;
}

/// Measures a batch while the sampler always has work: the time from one end to the next.
std::vector<Sample> measure(const store::MachineGraph& graph, const Arguments& arguments, ThreadPool& pool) {
  const Device device = graph.view().device;
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const auto sampler = sampling::make_sampler(graph.view(),
                                              {.fanouts = arguments.fanouts,
                                               .method = arguments.sampler,
                                               .replace = arguments.replace,
                                               .layer_dependent = arguments.labor_dependent,
                                               .max_seeds = arguments.batch,
                                               .edge_ids = arguments.edge_ids,
                                               .transpose = arguments.transpose,
                                               .strided = arguments.strided,
                                               .compact_inputs = !arguments.no_compact,
                                               .sorted_inputs = arguments.sorted,
                                               .input_original_ids = false},
                                              {}, arguments.in_flight, pool);
  const int num_batches = arguments.warm_up + arguments.runs + arguments.in_flight;
  std::vector<cuda::Array<NodeId>> seeds;  // where the sampler runs
  for (int run = 0; run < num_batches; ++run) {
    const auto on_host = seeds_of(graph, arguments.batch, static_cast<std::uint64_t>(run));
    seeds.emplace_back(cuda::memory_on(device), std::ssize(on_host), "seeds", device);
    cuda::copy_async(seeds.back().data(), on_host.data(), on_host.size() * sizeof(NodeId), stream);
    stream.synchronize();
  }
  std::vector<Sample> samples;
  auto last_end = Clock::now();
  for (int run = 0; run < num_batches; ++run) {
    if (arguments.in_flight == 1) last_end = Clock::now();
    const auto step = static_cast<std::uint32_t>(run);
    sampler->enqueue(seeds[step].span(), {.seed = 1, .step = step}, run % arguments.in_flight, stream);
    if (run < arguments.in_flight - 1) continue;
    const sampling::MiniBatch batch = sampler->finish((run + 1) % arguments.in_flight);
    const auto end = Clock::now();
    const double seconds = std::chrono::duration<double>(end - last_end).count();
    last_end = end;
    if (run >= arguments.warm_up + arguments.in_flight - 1)
      samples.push_back({seconds, batch.num_edges(), batch.num_inputs()});
  }
  for (int ahead = 1; ahead < arguments.in_flight; ++ahead)
    sampler->finish((num_batches + ahead) % arguments.in_flight);
  return samples;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[at(share * static_cast<double>(values.size() - 1))];
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
          {"sampler", enum_name(arguments.sampler)},
          {"replace", arguments.replace},
          {"labor_dependent", arguments.labor_dependent},
          {"batch", arguments.batch},
          {"in_flight", arguments.in_flight},
          {"strided", arguments.strided},
          {"compact_inputs", !arguments.no_compact},
          {"transpose", arguments.transpose},
          {"sorted_inputs", arguments.sorted},
          {"edge_ids", arguments.edge_ids},
          {"edges_per_minibatch", edges},
          {"inputs_per_minibatch", inputs},
          {"ms_per_minibatch",
           {{"lower_quartile", quantile(ms, 0.25)},
            {"median", quantile(ms, 0.5)},
            {"upper_quartile", quantile(ms, 0.75)}}},
          {"edges_per_second", quantile(rates, 0.5)}};
}

void print_table(const nlohmann::json& result) {
  Table table({"device", "sampler", "fanouts", "batch", "edges", "inputs", "ms (quartiles)", "M edges/s"});
  const auto& ms = result["ms_per_minibatch"];
  table.row({result["device"].get<std::string>(), result["sampler"].get<std::string>(),
             fmt::format("{}", fmt::join(result["fanouts"].get<std::vector<int>>(), ",")),
             format_count(result["batch"].get<Count>()),
             format_count(static_cast<Count>(result["edges_per_minibatch"].get<double>())),
             format_count(static_cast<Count>(result["inputs_per_minibatch"].get<double>())),
             fmt::format("{:.3f} ({:.3f}-{:.3f})", ms["median"].get<double>(),
                         ms["lower_quartile"].get<double>(), ms["upper_quartile"].get<double>()),
             fmt::format("{:.1f}", result["edges_per_second"].get<double>() / 1e6)});
  fmt::print("{}", table.str());
}

store::MachineGraph load_graph(const Arguments& arguments, const comm::Machine& machine, ThreadPool& pool) {
  store::LoadOptions load{.edge_ids = arguments.edge_ids,
                          .edge_weights = arguments.sampler == sampling::Method::weighted,
                          .placement = plan::parse_placement(arguments.placement),
                          .batch = {.seeds = arguments.batch, .fanouts = arguments.fanouts}};
  if (machine.device().is_cuda())
    load.gpu_budget_bytes = cuda::device_memory(machine.device().index).free_bytes / 2;
  const graph::Source source(arguments.graph);
  if (const graph::SyntheticSpec* spec = source.synthetic(); spec != nullptr && !arguments.edge_ids)
    return batches::generate_graph(*spec, {}, machine, load, pool);
  auto input = std::make_unique<graph::Graph>(graph::read_graph(source));
  return batches::take_graph(std::move(input), machine, load);
}

void run(const Arguments& arguments, const comm::World& world) {
  if (world.size() != 1) throw InputError("this benchmark runs on one rank", "Start it without mpirun.");
  const comm::Topology topology = comm::discover(world.communicator(), {.compute = arguments.device});
  comm::Machine machine(world.communicator(), topology);
  ThreadPool pool(arguments.threads);
  store::MachineGraph graph = load_graph(arguments, machine, pool);
  if (graph.train_nodes().empty())
    throw InputError("the graph has no training nodes", "Give it some: train=0.5");
  const auto result = summary(measure(graph, arguments, pool), graph, arguments, pool.num_threads());
  if (arguments.json)
    fmt::print("{}\n", result.dump(2));
  else
    print_table(result);
  graph.close(machine);
  machine.close();
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::Arguments arguments;
  try {
    if (const std::string help = strata::read(arguments, {argv + 1, argv + argc}); !help.empty())
      return fmt::print("{}", help), 0;
    const strata::comm::World world(&argc, &argv);
    strata::run(arguments, world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", strata::format_error("benchmark_sampling", error));
    return static_cast<int>(strata::exit_code(error));
  }
}
