// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "strata/graph/graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::graph {

/// Where a dataset lies: "DIR", or "DIR,KEY=VALUE,..." if a folder holds more than one choice.
struct DatasetPlace {
  std::string folder;
  std::string choice;  ///< name of the split (ogb) or the task (graphbolt); empty: the only one
  std::optional<Count> weight_column = {};  ///< column of the edge features (ogb) that holds weights
};

Graph read_ogb(const DatasetPlace& place, const ReadOptions& options, ThreadPool& pool);
Graph read_graphbolt(const DatasetPlace& place, const ReadOptions& options, ThreadPool& pool);

/// Sorts the splits and checks them for bad ids, repetitions and overlaps. Checks labels against the numbers
/// of nodes and classes.
///
/// If num_classes is 0, it becomes the largest label + 1. `origin` names the dataset in messages. Throws
/// InputError.
void finish_graph(Graph& graph, const std::string& origin);

}  // namespace strata::graph
