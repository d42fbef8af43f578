// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::partition {

/// What `strata-partition info SPEC` shows of a graph that is not partitioned.
struct GraphSummary {
  struct NodeDegree {
    NodeId node = 0;
    Count degree = 0;
  };
  struct Degrees {
    Count least = 0, median = 0, p90 = 0, p99 = 0, most = 0;
    double mean = 0;
    Count without_neighbors = 0;
    std::vector<NodeDegree> largest;  ///< ten at most, largest first
  };
  struct Labels {
    std::vector<Count> nodes_of_class;  ///< of several classes per node, a node counts once per class
    Count unlabelled = 0;
    /// The share of edges whose two ends have the same class, of those with two known ends, and what it would
    /// be if edges did not care; none for several classes per node, or without such edges.
    std::optional<double> homophily = {}, homophily_by_chance = {};
  };
  /// Memory that training needs on one machine; a GPU takes as much of the graph and its rows as fits.
  struct Memory {
    Count structure_bytes = 0, feature_bytes = 0, feature_bytes_16_bits = 0, label_bytes = 0;
    /// Per rank, with strata-train's defaults (SAGE, hidden 256, fanouts 15,10,5, 1024 seeds, Adam) in f32:
    /// parameters, their gradients and Adam's two moments.
    Count model_bytes = 0;
    /// The same for one batch in which no two picks are the same node, which is an upper bound: its input
    /// rows, and per layer 8 times the hidden columns per node that gets an output, for activations, their
    /// gradients and workspaces, as strata-train plans.
    Count batch_row_bytes = 0, batch_activation_bytes = 0;
  };

  std::string name;
  Count nodes = 0, edges = 0;
  bool undirected = false, has_weights = false, multi_label = false;
  graph::CleaningReport cleaning;
  Degrees in_degrees;
  Count components = 0, largest_component = 0;  ///< weakly connected
  Count feature_cols = 0;
  DType feature_dtype = DType::f32;
  std::optional<Labels> labels = {};
  struct NodeWeight {
    Count sum = 0, largest = 0;
  };
  std::vector<NodeWeight> node_weights = {};  ///< by kind
  Count train = 0, valid = 0, test = 0;
  Memory memory;
};

/// Summarizes a graph. Takes 16 bytes per node.
GraphSummary summarize(const graph::Graph& graph, ThreadPool& pool);
/// The same for a graph whose lists lie elsewhere than in `structure`, which has only the number of nodes.
GraphSummary summarize(const graph::Graph& graph, const graph::ListsView& lists, ThreadPool& pool);

std::string summary_text(const GraphSummary& summary);  ///< tables for a person
std::string summary_json(const GraphSummary& summary);

}  // namespace strata::partition
