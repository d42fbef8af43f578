// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "strata/batches/graph.hpp"
#include "support/mpi_world.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::test {

/// A random graph in as many parts as ranks, loaded on machines of so many ranks (0: one machine).
struct LoaderSetup {
  static constexpr Count kCols = 7;

  explicit LoaderSetup(int ranks_per_machine, DatasetOptions options = {.num_nodes = 900,
                                                                        .num_edges = 4000,
                                                                        .feature_cols = kCols,
                                                                        .with_labels = true,
                                                                        .seed = 4})
      : directory(common_folder("loader")), dataset(random_dataset(options)) {
    const comm::Communicator& all = world().communicator();
    if (all.rank() == 0) parts.emplace(*dataset, all.size(), directory, 5);
    all.barrier();
    runtime = std::make_shared<batches::Runtime>(
        world(), comm::TopologyOptions{.ranks_per_machine = ranks_per_machine,
                                       .compute = comm::TopologyOptions::Compute::cpu});
    graph = batches::Graph::load(runtime, graph::Source(directory.string()), {});
    all.barrier();
  }
  ~LoaderSetup() { graph->close(); }

  std::filesystem::path directory;
  std::unique_ptr<graph::Graph> dataset;
  std::optional<PartitionedDataset> parts;
  std::shared_ptr<batches::Runtime> runtime;
  std::shared_ptr<batches::Graph> graph;
};

}  // namespace strata::test
