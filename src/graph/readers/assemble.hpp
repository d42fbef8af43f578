// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "strata/graph/graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::graph {

/// Where a dataset lies: "DIR", or "DIR,KEY=VALUE,..." where a folder holds more than one choice.
struct DatasetPlace {
  std::string folder;
  std::string choice;  ///< of the split (ogb) or the task (graphbolt); empty: the only one
  std::optional<Count> weight_column = {};  ///< of the edge features (ogb) that gives weights
};

Graph read_ogb(const DatasetPlace& place, const ReadOptions& options, ThreadPool& pool);
Graph read_graphbolt(const DatasetPlace& place, const ReadOptions& options, ThreadPool& pool);

/// Sorts the splits and checks ids, repetitions and overlaps, and labels against the number of nodes and
/// classes.
///
/// num_classes == 0 is replaced by the largest label + 1. `origin` names the dataset in messages. Throws
/// InputError.
void finish_graph(Graph& graph, const std::string& origin);

}  // namespace strata::graph
