// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

/// Arrays by their usual names in a folder for npy:. All throw InputError with the path.

/// Refuses an array whose name is nearly one of `known` that is missing; warns of other arrays.
void check_array_names(const std::filesystem::path& folder, const std::vector<std::string>& known);

/// Refuses edges of another shape than (2, E).
void refuse_pairs(const NpyArray& edges);

/// The number of nodes that the arrays of a folder state: all of them must agree.
struct StatedNodes {
  std::filesystem::path folder;
  std::optional<Count> nodes = {};
  std::string by = {};  ///< what stated it

  void take(std::optional<Count> stated, const std::string& stated_by);
  /// Takes the number in num_nodes.npy, and the rows of the arrays of nodes.
  void take_arrays();
};

/// Sets labels and splits of the graph from y, train, valid (or val) and test, where they exist.
void read_labels_and_splits(Graph& graph, const std::filesystem::path& folder, ThreadPool& pool,
                            const ScratchStore* scratch);

}  // namespace strata::graph
