// SPDX-License-Identifier: Apache-2.0
#include "readers/assemble.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

#include "readers/columns.hpp"
#include "stored_lists.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

struct NamedSplit {
  const char* name;
  std::vector<NodeId>* nodes;
};

void sort_split(const NamedSplit& split, Count num_nodes, const std::string& origin) {
  std::vector<NodeId>& nodes = *split.nodes;
  if (!std::is_sorted(nodes.begin(), nodes.end())) std::sort(nodes.begin(), nodes.end());
  if (!nodes.empty() && (nodes.front() < 0 || nodes.back() >= num_nodes))
    throw InputError(fmt::format("{}: split '{}' holds node {}, but ids must be within [0, {})", origin,
                                 split.name, nodes.front() < 0 ? nodes.front() : nodes.back(), num_nodes),
                     "Correct the split; ids count from 0.");
  const auto twice = std::adjacent_find(nodes.begin(), nodes.end());
  if (twice != nodes.end())
    throw InputError(fmt::format("{}: split '{}' holds node {} twice", origin, split.name, *twice),
                     "List each node once.");
}

void refuse_overlap(const NamedSplit& a, const NamedSplit& b, const std::string& origin) {
  std::vector<NodeId> common;
  std::set_intersection(a.nodes->begin(), a.nodes->end(), b.nodes->begin(), b.nodes->end(),
                        std::back_inserter(common));
  if (!common.empty())
    throw InputError(fmt::format("{}: splits '{}' and '{}' overlap in {}, the first is {}", origin, a.name,
                                 b.name, counted(std::ssize(common), "node"), common.front()),
                     "A node may be in one split only.");
}

void check_splits(Graph& graph, const std::string& origin) {
  const NamedSplit splits[] = {
      {"train", &graph.splits.train}, {"valid", &graph.splits.valid}, {"test", &graph.splits.test}};
  for (const NamedSplit& split : splits) sort_split(split, graph.num_nodes(), origin);
  refuse_overlap(splits[0], splits[1], origin);
  refuse_overlap(splits[0], splits[2], origin);
  refuse_overlap(splits[1], splits[2], origin);
}

/// Gives every entry of the lists the weight of its edge.
void give_weights(CscGraph& graph, const float* of_edges) {
  graph.weights.resize(graph.edge_ids.size());
  std::ranges::transform(graph.edge_ids, graph.weights.begin(), [&](EdgeId edge) { return of_edges[edge]; });
}

bool has_label(const Graph& graph, NodeId node) {
  const LabelShape shape = graph.label_shape();
  return !shape.is_missing(graph.labels.data() + node * shape.words());
}

void check_classes(Graph& graph, const std::string& origin) {
  const auto largest = std::max_element(graph.labels.begin(), graph.labels.end());
  if (graph.num_classes == 0) graph.num_classes = Count{*largest} + 1;
  if (*largest >= graph.num_classes)
    throw InputError(fmt::format("{}: node {} has label {}, but there are {} classes", origin,
                                 largest - graph.labels.begin(), *largest, graph.num_classes),
                     "Labels count from 0; correct the label or num_classes.");
}

void check_labels(Graph& graph, const std::string& origin) {
  if (graph.labels.empty()) return;
  if (!graph.multi_label && graph.target_cols == 0) check_classes(graph, origin);
  for (const NodeId node : graph.splits.train)
    if (!has_label(graph, node))
      throw InputError(fmt::format("{}: training node {} has no label", origin, node),
                       "Take it out of the training split.");
}

/// Whether labels of one class per node were written as a matrix, which trains another task than was meant.
bool looks_one_hot(const Graph& graph) {
  if (!graph.multi_label || graph.num_classes < 2) return false;
  Count labelled = 0;
  for (NodeId v = 0; v < graph.num_nodes(); ++v) {
    if (!has_label(graph, v)) continue;
    const std::int32_t* const words = graph.labels.data() + v * graph.label_words();
    Count classes = 0;
    for (Count c = 0; c < graph.num_classes && classes < 2; ++c) classes += has_class(words, c);
    if (classes != 1) return false;
    ++labelled;
  }
  return labelled > 1;
}

}  // namespace

void warn_of_probable_mistakes(const Graph& graph, const std::string& origin) {
  if (looks_one_hot(graph))
    spdlog::warn(
        "{}: every node has exactly one of the {} classes of its row of labels. They are taken as a task "
        "with several classes per node (--loss bce); for one class per node write labels.argmax(axis=1)",
        origin, graph.num_classes);
  if (graph.splits.train.empty()) return;
  if (graph.splits.valid.empty())
    spdlog::warn("{}: no validation nodes: training will keep the last epoch's model, not the best one's",
                 origin);
}

void build_structure(Graph& graph, Count num_nodes, const EdgeList& edges, const ReadOptions& options,
                     bool add_reverse, Assembly& assembly) {
  if (options.on_nodes_known) options.on_nodes_known(num_nodes);
  const CscOptions how{
      .duplicates = options.duplicates, .self_loops = options.self_loops, .add_reverse = add_reverse};
  if (assembly.scratch != nullptr) {
    BuiltLists built = build_stored_lists(num_nodes, edges, how, *assembly.scratch, assembly.pool);
    graph.structure.num_nodes = num_nodes;
    graph.cleaning = built.cleaning;
    graph.undirected = add_reverse || built.symmetric;
    assembly.lists = std::move(built.lists);
    return;
  }
  BuiltCsc built = build_csc(num_nodes, edges, how, assembly.pool);
  graph.structure = std::move(built.structure);
  if (edges.weights != nullptr) give_weights(graph.structure, edges.weights);
  graph.cleaning = built.cleaning;
  graph.undirected = add_reverse || is_symmetric(graph.structure, assembly.pool);
}

void finish_graph(Graph& graph, const std::string& origin, const ReadOptions& options, ThreadPool& pool,
                  ScratchStore* scratch) {
  require_utf8(graph.name, fmt::format("{}: the graph's name", origin));  // manifests are JSON
  if (options.normalize_features && graph.features.cols > 0)
    graph.features = normalized(graph.features, pool, scratch);
  check_splits(graph, origin);
  check_labels(graph, origin);
}

}  // namespace strata::graph
