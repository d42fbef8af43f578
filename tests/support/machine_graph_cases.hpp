// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "strata/store/machine_graph.hpp"
#include "support/id_spans.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

/// Random graphs as strata::store loads them, and what a loaded one is expected to hold.
namespace strata::test {

/// Parts of a random graph, written by the first rank of the run and read by all.
class Parts {
 public:
  Parts(
      const DatasetOptions& options, int num_parts,
      const std::function<void(graph::Graph&)>& change = [](graph::Graph&) {})
      : graph_(random_dataset(options)), directory_(common_folder("machine_graph")) {
    change(*graph_);
    if (world().rank() == 0)
      written_.emplace(*graph_, num_parts, directory_, options.seed, options.num_clusters);
    world().communicator().barrier();
  }
  ~Parts() { world().communicator().barrier(); }

  const graph::Graph& graph() const { return *graph_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::unique_ptr<graph::Graph> graph_;
  std::filesystem::path directory_;
  std::optional<PartitionedDataset> written_;
};

/// All that a machine has of a graph: lists, ids, labels, degrees, features and splits, through original
/// ids.
void expect_is(const store::MachineGraph& loaded, const graph::Graph& graph,
               const store::LoadOptions& options);

/// The list in a row of the view is that of the node.
void expect_list(const store::GraphView& view, Count row, NodeId original, const graph::Graph& graph);

struct LoadCase {
  int num_parts, ranks_per_machine;
  DatasetOptions dataset;
  store::LoadOptions options;
};

/// Loads the parts of a random graph and compares with it.
void expect_loads(const LoadCase& c);

}  // namespace strata::test
