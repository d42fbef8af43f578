// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/threads.hpp"

namespace strata::partition {

/// The summary over all parts that `strata-partition info` shows.
struct Summary {
  Count halo_nodes = 0;
  Count cut_edges = 0;     ///< stored edges whose ends lie in different parts
  double replication = 1;  ///< (inner + halo) / nodes
  std::int64_t bytes = 0, feature_bytes = 0, structure_bytes = 0;
};
Summary summarize(const graph::PartitionRecord& record);

std::string info_text(const graph::PartitionRecord& record);  ///< tables for a person
std::string info_json(const graph::PartitionRecord& record);

/// One thing that is wrong with a partition directory.
struct Problem {
  std::string file;
  std::string dataset;  ///< empty: the file as a whole
  std::string message;
};

/// Compares every byte below `directory` with the manifest, then checks every invariant of
/// partition/FORMAT.md. Returns all problems; invariants are checked only if all bytes are as written. Parts
/// are read in pieces, whatever their size. Throws InputError only if there is no directory, and OutOfMemory
/// if 25 bytes per node and a little per thread are not free.
std::vector<Problem> verify(const std::filesystem::path& directory, int num_threads);

std::string verify_text(const std::filesystem::path& directory, const std::vector<Problem>& problems);
std::string verify_json(const std::filesystem::path& directory, const std::vector<Problem>& problems);

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
  /// A column of targets of regression, over all nodes that have it.
  struct Target {
    Count nodes = 0;
    double mean = 0, deviation = 0, smallest = 0, largest = 0;
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
  std::optional<Labels> labels = {};  ///< none of targets
  std::vector<Target> targets = {};   ///< by column; empty: labels are classes
  struct NodeType {
    std::string name;
    Count nodes = 0, feature_cols = 0, labelled = 0, train = 0, valid = 0, test = 0;
  };
  struct Relation {
    graph::EdgeType type;
    Count edges = 0, most = 0;  ///< most: the largest in-degree
    double mean = 0;            ///< in-degree of the nodes of the destination's type
  };
  std::vector<NodeType> node_types = {};  ///< empty: one type
  std::vector<Relation> relations = {};   ///< the same
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
