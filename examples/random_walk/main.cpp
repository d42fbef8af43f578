// SPDX-License-Identifier: Apache-2.0
// Samples a minibatch by random walks from a generated graph, and prints its layers:
//   sample_random_walks [synthetic settings]
#include <fmt/format.h>

#include "random_walk.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/error.hpp"

namespace {

using namespace strata;

void print(const sampling::MiniBatch& batch) {
  for (const sampling::Block& block : batch.blocks)
    fmt::print("{:6} dst nodes, {:6} src nodes, {:7} visited neighbors\n", block.num_dst, block.num_src,
               block.num_edges);
}

void run(const std::string& settings, const comm::World& world) {
  if (world.size() != 1) throw InputError("this example runs on one rank", "Start it without mpirun.");
  const comm::Topology topology =
      comm::discover(world.communicator(), {.compute = comm::TopologyOptions::Compute::cpu});
  comm::Machine machine(world.communicator(), topology);
  ThreadPool pool;
  store::MachineGraph graph =
      batches::generate_graph(graph::parse_synthetic(settings), {}, machine, {}, pool);
  {
    const sampling::SamplerOptions options{.fanouts = {10, 5},
                                           .chooser = std::make_shared<example::RandomWalkChooser>(
                                               graph.view(), example::RandomWalkOptions{}, pool),
                                           .max_seeds = 256};
    const auto sampler = sampling::make_sampler(graph.view(), options, {}, 1, pool);
    const auto train = graph.train_nodes();
    const auto seeds = train.first(std::min<std::size_t>(train.size(), 256));
    for (std::uint32_t step = 0; step < 3; ++step) {
      fmt::print("step {}\n", step);
      print(sampler->sample(seeds, {.seed = 1, .step = step}, 0, cuda::Stream()));
    }
  }
  graph.close(machine);
  machine.close();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const comm::World world(&argc, &argv);
    run(argc > 1 ? argv[1] : "kind=sbm,nodes=20000,features=0", world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", strata::format_error("sample_random_walks", error));
    return static_cast<int>(strata::exit_code(error));
  }
}
