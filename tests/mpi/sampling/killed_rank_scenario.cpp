// SPDX-License-Identifier: Apache-2.0
// Machines of one rank that sample over an exchange until the last one is killed. See
// tests/mpi/tensor/killed_rank.sh.
#include "strata/sampling/sampler.hpp"
#include "support/last_rank.hpp"
#include "support/reference_sampler.hpp"
#include "support/start_ranks.hpp"

int main(int argc, char** argv) {
  using namespace strata;
  const comm::World world(test::start_ranks(&argc, &argv));
  const comm::Topology topology = comm::discover(
      world.communicator(), {.ranks_per_machine = 1, .compute = comm::TopologyOptions::Compute::cpu});
  const test::PlainGraph graph = test::random_graph({.num_nodes = 20000, .mean_degree = 20});
  std::vector<NodeId> offsets;
  for (int machine = 0; machine <= world.size(); ++machine)
    offsets.push_back(graph.num_nodes() * machine / world.size());
  const auto rank = at(world.rank());
  const test::ViewOwner owner(graph, {.first = offsets[rank], .last = offsets[rank + 1]});
  ThreadPool pool(1);
  const auto sampler = sampling::make_sampler(
      owner.view(), {.fanouts = {10, 10}, .max_seeds = 500},
      {.communicator = &world.communicator(), .topology = &topology, .machine_offsets = offsets}, 1, pool);
  const std::jthread killer = test::kill_last_rank(world);
  for (std::uint32_t step = 0;; ++step) {
    const auto seeds = test::random_nodes(500, offsets[rank], offsets[rank + 1], step);
    sampler->sample(seeds, {.seed = 1, .step = step}, 0, {});
  }
}
