// SPDX-License-Identifier: Apache-2.0
// Machines of one rank that fetch each other's rows until the last one is killed. See
// tests/mpi/tensor/killed_rank.sh.
#include <vector>

#include "strata/batches/fetcher.hpp"
#include "support/last_rank.hpp"
#include "support/start_ranks.hpp"

int main(int argc, char** argv) {
  using namespace strata;
  constexpr Count kRows = 20000, kCols = 100;  // of a machine
  const comm::World world(test::start_ranks(&argc, &argv));
  const comm::Topology topology = comm::discover(
      world.communicator(), {.ranks_per_machine = 1, .compute = comm::TopologyOptions::Compute::cpu});
  const comm::Machine machine(world.communicator(), topology);
  const auto table = tensor::ChunkTensor::create(machine, {.name = "features", .rows = kRows, .cols = kCols},
                                                 tensor::Placement::on_host(kRows));
  std::vector<NodeId> offsets, ids;
  for (int m = 0; m <= world.size(); ++m) offsets.push_back(m * kRows);
  for (NodeId id = world.rank(); id < offsets.back(); id += 5) ids.push_back(id);
  ThreadPool pool(1);
  batches::RowFetcher fetcher(table, {},
                              {.communicator = &world.communicator(),
                               .topology = &topology,
                               .machine_offsets = offsets,
                               .machine = machine.index(),
                               .round_bytes = Count{1} << 20},
                              pool);
  std::vector<float> rows(ids.size() * at(kCols));
  const std::jthread killer = test::kill_last_rank(world);
  for (;;) fetcher.fetch({.ids = ids.data(), .count = std::ssize(ids)}, rows.data(), {});
}
