// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>

#include "inspect/describe_types.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/label_sets.hpp"
#include "strata/util/log.hpp"

namespace strata::partition {
namespace {

constexpr Count kDescribeGrain = Count{1} << 16;
constexpr Count kMostListed = 10;

/// The ten nodes with the largest degrees.
std::vector<GraphSummary::NodeDegree> largest_of(const graph::ListsView& lists) {
  const auto before = [](const GraphSummary::NodeDegree& a, const GraphSummary::NodeDegree& b) {
    return a.degree != b.degree ? a.degree > b.degree : a.node < b.node;
  };
  std::vector<GraphSummary::NodeDegree> largest;
  for (NodeId v = 0; v < lists.num_nodes; ++v) {
    const auto at = static_cast<std::size_t>(v);
    const GraphSummary::NodeDegree here{v, lists.indptr[at + 1] - lists.indptr[at]};
    if (std::ssize(largest) == kMostListed && !before(here, largest.back())) continue;
    largest.insert(std::ranges::upper_bound(largest, here, before), here);
    if (std::ssize(largest) > kMostListed) largest.pop_back();
  }
  return largest;
}

GraphSummary::Degrees degrees_of(const graph::ListsView& lists) {
  GraphSummary::Degrees facts;
  const auto nodes = static_cast<std::size_t>(lists.num_nodes);
  if (nodes == 0) return facts;
  facts.largest = largest_of(lists);
  std::vector<Count> degrees(nodes);
  for (std::size_t v = 0; v < nodes; ++v) degrees[v] = lists.indptr[v + 1] - lists.indptr[v];
  std::ranges::sort(degrees);
  const auto quantile = [&](double share) {
    return degrees[static_cast<std::size_t>(share * static_cast<double>(nodes - 1))];
  };
  facts.least = degrees.front();
  facts.median = quantile(0.5);
  facts.p90 = quantile(0.9);
  facts.p99 = quantile(0.99);
  facts.most = degrees.back();
  facts.mean = static_cast<double>(lists.num_edges()) / static_cast<double>(nodes);
  facts.without_neighbors = std::ranges::upper_bound(degrees, 0) - degrees.begin();
  return facts;
}

/// Calls visit(node, in-neighbor) for every edge to the nodes [begin, end), which are not many.
template <typename Visit>
void each_edge(const graph::ListsView& lists, NodeId begin, NodeId end, Visit&& visit) {
  constexpr Count kReleaseInterval = Count{1} << 18;
  lists.release_pages();
  lists.indices.visit([&](const auto* sources) {
    Count met = 0;
    for (NodeId v = begin; v < end; ++v) {
      const Count first = lists.indptr[static_cast<std::size_t>(v)],
                  last = lists.indptr[static_cast<std::size_t>(v) + 1];
      for (Count e = first; e < last; ++e) {
        visit(v, static_cast<NodeId>(sources[e]));
        if (++met % kReleaseInterval == 0) lists.release_pages();
      }
    }
  });
}

/// Sets of connected nodes, merged edge by edge.
class ConnectedSets {
 public:
  explicit ConnectedSets(Count nodes) : parent_(static_cast<std::size_t>(nodes)) {
    std::iota(parent_.begin(), parent_.end(), NodeId{0});
  }

  void merge(NodeId a, NodeId b) {
    a = root_of(a);
    b = root_of(b);
    if (a != b) parent_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }

  std::vector<Count> sizes() {
    std::vector<Count> size_of(parent_.size(), 0), sizes;
    for (NodeId v = 0; v < std::ssize(parent_); ++v) ++size_of[static_cast<std::size_t>(root_of(v))];
    std::ranges::copy_if(size_of, std::back_inserter(sizes), [](Count size) { return size > 0; });
    return sizes;
  }

 private:
  NodeId root_of(NodeId v) {
    while (parent_[static_cast<std::size_t>(v)] != v) {
      NodeId& above = parent_[static_cast<std::size_t>(v)];
      above = parent_[static_cast<std::size_t>(above)];
      v = above;
    }
    return v;
  }

  std::vector<NodeId> parent_;
};

void find_components(const graph::ListsView& lists, GraphSummary& summary) {
  ConnectedSets components(lists.num_nodes);
  ProgressBar progress("components", lists.num_nodes, "nodes");
  for (NodeId begin = 0; begin < lists.num_nodes; begin += kDescribeGrain) {
    const NodeId end = std::min(lists.num_nodes, begin + kDescribeGrain);
    each_edge(lists, begin, end, [&](NodeId v, NodeId u) { components.merge(v, u); });
    progress.advance(end - begin);
  }
  const std::vector<Count> sizes = components.sizes();
  summary.components = std::ssize(sizes);
  summary.largest_component = sizes.empty() ? 0 : *std::ranges::max_element(sizes);
}

/// Fills homophily. REQUIRES: one class per node.
void compare_ends(const graph::Graph& graph, const graph::ListsView& lists, GraphSummary::Labels& facts,
                  ThreadPool& pool) {
  std::atomic<Count> same{0}, known{0};
  std::vector<std::atomic<Count>> ends(static_cast<std::size_t>(graph.num_classes));
  ProgressBar progress("compare labels", graph.num_nodes(), "nodes");
  pool.parallel_for(graph.num_nodes(), kDescribeGrain, [&](Count begin, Count end) {
    Count same_here = 0, known_here = 0;
    std::vector<Count> ends_here(ends.size(), 0);
    each_edge(lists, begin, end, [&](NodeId v, NodeId u) {
      const std::int32_t mine = graph.labels[static_cast<std::size_t>(v)],
                         other = graph.labels[static_cast<std::size_t>(u)];
      if (mine < 0 || other < 0 || u == v) return;
      ++known_here;
      same_here += other == mine;
      ++ends_here[static_cast<std::size_t>(mine)];
      ++ends_here[static_cast<std::size_t>(other)];
    });
    same += same_here;
    known += known_here;
    for (std::size_t c = 0; c < ends.size(); ++c) ends[c] += ends_here[c];
    progress.advance(end - begin);
  });
  if (known == 0) return;
  const auto edges = static_cast<double>(known);
  facts.homophily = static_cast<double>(same) / edges;
  double chance = 0;
  for (const std::atomic<Count>& count : ends) {
    const double share = static_cast<double>(count) / (2 * edges);
    chance += share * share;
  }
  facts.homophily_by_chance = chance;
}

GraphSummary::Labels labels_of(const graph::Graph& graph, const graph::ListsView& lists, ThreadPool& pool) {
  GraphSummary::Labels facts;
  facts.nodes_of_class.assign(static_cast<std::size_t>(graph.num_classes), 0);
  for (NodeId v = 0; v < graph.num_nodes(); ++v) {
    const std::int32_t* const words = graph.labels.data() + v * graph.label_words();
    if (!graph.multi_label) {
      *words < 0 ? ++facts.unlabelled : ++facts.nodes_of_class[static_cast<std::size_t>(*words)];
    } else if (is_unlabelled(words, graph.num_classes)) {
      ++facts.unlabelled;
    } else {
      for (Count c = 0; c < graph.num_classes; ++c)
        facts.nodes_of_class[static_cast<std::size_t>(c)] += has_class(words, c);
    }
  }
  if (!graph.multi_label) compare_ends(graph, lists, facts, pool);
  return facts;
}

std::vector<GraphSummary::Target> targets_of(const graph::Graph& graph) {
  const auto cols = static_cast<std::size_t>(graph.target_cols);
  std::vector<GraphSummary::Target> facts(cols);
  const auto for_known = [&](const auto& visit) {
    for (std::size_t i = 0; i < graph.labels.size(); ++i)
      if (graph.labels[i] != kMissingTarget)
        visit(facts[i % cols], static_cast<double>(std::bit_cast<float>(graph.labels[i])));
  };
  for_known([](GraphSummary::Target& column, double value) {
    column.smallest = column.nodes == 0 ? value : std::min(column.smallest, value);
    column.largest = column.nodes == 0 ? value : std::max(column.largest, value);
    ++column.nodes;
    column.mean += (value - column.mean) / static_cast<double>(column.nodes);
  });
  for_known([](GraphSummary::Target& column, double value) {
    column.deviation += (value - column.mean) * (value - column.mean) / static_cast<double>(column.nodes);
  });
  for (GraphSummary::Target& column : facts) column.deviation = std::sqrt(column.deviation);
  return facts;
}

std::vector<GraphSummary::NodeWeight> node_weights_of(const graph::NodeWeights& weights) {
  std::vector<GraphSummary::NodeWeight> facts(static_cast<std::size_t>(weights.kinds));
  for (std::size_t i = 0; i < weights.values.size(); ++i) {
    GraphSummary::NodeWeight& of_kind = facts[i % facts.size()];
    of_kind.sum += weights.values[i];
    of_kind.largest = std::max<Count>(of_kind.largest, weights.values[i]);
  }
  return facts;
}

// The defaults of strata-train (strata/train/config.hpp), which lies above this module.
constexpr Count kHidden = 256, kSeeds = 1024;
constexpr std::array<Count, 3> kFanouts = {15, 10, 5};

Count default_model_bytes(const graph::Graph& graph) {
  constexpr Count kBytesPerParameter = 4 * 4;  // f32: the value, its gradient, Adam's two moments
  Count parameters = 0;
  Count inputs = graph.features.cols;
  for (std::size_t layer = 0; layer < kFanouts.size(); ++layer) {
    const Count outputs =
        layer + 1 < kFanouts.size() ? kHidden : std::max(graph.num_classes, graph.target_cols);
    parameters += (2 * inputs + 1) * outputs;  // for the neighbors, for the node itself, and the bias
    inputs = outputs;
  }
  return parameters * kBytesPerParameter;
}

/// Nodes of a batch of default training: the seeds, and those up to each hop.
std::array<Count, kFanouts.size() + 1> default_batch_nodes(const graph::Graph& graph) {
  std::array<Count, kFanouts.size() + 1> nodes{std::min(kSeeds, std::ssize(graph.splits.train))};
  for (std::size_t hop = 0; hop < kFanouts.size(); ++hop)
    nodes[hop + 1] = std::min(nodes[hop] * (1 + kFanouts[hop]), graph.num_nodes());
  return nodes;
}

Count default_batch_row_bytes(const graph::Graph& graph) {
  return default_batch_nodes(graph).back() * graph.features.cols * 4;
}

Count default_batch_activation_bytes(const graph::Graph& graph) {
  constexpr Count kBytesPerOutput = 8 * 4;
  const auto nodes = default_batch_nodes(graph);
  return std::accumulate(nodes.begin(), nodes.end() - 1, Count{0}) * kHidden * kBytesPerOutput;
}

GraphSummary::Memory memory_of(const graph::Graph& graph, const graph::ListsView& lists) {
  const Count values = graph.num_nodes() * graph.features.cols;
  const Count edge_bytes = 8 + (lists.weights.empty() ? 0 : 4);
  return {.structure_bytes = lists.num_edges() * edge_bytes + (graph.num_nodes() + 1) * 8,
          .feature_bytes = values * 4,
          .feature_bytes_16_bits = values * 2,
          .label_bytes = static_cast<Count>(graph.labels.size() * sizeof(std::int32_t)),
          .model_bytes = default_model_bytes(graph),
          .batch_row_bytes = default_batch_row_bytes(graph),
          .batch_activation_bytes = default_batch_activation_bytes(graph)};
}

}  // namespace

GraphSummary summarize(const graph::Graph& graph, const graph::ListsView& lists, ThreadPool& pool) {
  GraphSummary summary{.name = graph.name,
                       .nodes = graph.num_nodes(),
                       .edges = lists.num_edges(),
                       .undirected = graph.undirected,
                       .has_weights = !lists.weights.empty(),
                       .multi_label = graph.multi_label,
                       .cleaning = graph.cleaning,
                       .in_degrees = degrees_of(lists),
                       .feature_cols = graph.features.cols,
                       .feature_dtype = graph.features.dtype,
                       .node_weights = node_weights_of(graph.node_weights),
                       .train = std::ssize(graph.splits.train),
                       .valid = std::ssize(graph.splits.valid),
                       .test = std::ssize(graph.splits.test),
                       .memory = memory_of(graph, lists)};
  describe_types(graph, lists, summary);
  find_components(lists, summary);
  if (graph.target_cols > 0)
    summary.targets = targets_of(graph);
  else if (!graph.labels.empty())
    summary.labels = labels_of(graph, lists, pool);
  return summary;
}

GraphSummary summarize(const graph::Graph& graph, ThreadPool& pool) {
  return summarize(graph, lists_of(graph.structure), pool);
}

}  // namespace strata::partition
