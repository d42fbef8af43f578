// SPDX-License-Identifier: Apache-2.0
#include "random_graph.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "strata/util/random.hpp"

namespace strata::test {
namespace {

struct Edge {
  NodeId source, target;
  EdgeId id;
};

std::vector<Edge> draw_edges(const RandomGraphOptions& options, std::mt19937_64& random) {
  std::vector<Edge> edges;
  std::set<std::pair<NodeId, NodeId>> met;
  std::uniform_real_distribution<double> uniform;
  const auto node = [&] {  // squared: low ids are hot; the last tenth stays isolated
    const double x = uniform(random);
    return static_cast<NodeId>(x * x * 0.9 * static_cast<double>(options.num_nodes));
  };
  for (EdgeId id = 0; id < options.num_edges; ++id) {
    const NodeId u = node(), v = node();
    if (options.clean && (u == v || !met.insert(std::minmax(u, v)).second)) continue;
    edges.push_back({u, v, id});
    if (options.undirected && u != v) edges.push_back({v, u, id});
  }
  return edges;
}

graph::CscGraph to_csc(std::vector<Edge> edges, Count num_nodes) {
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.target, a.source, a.id) < std::tie(b.target, b.source, b.id);
  });
  graph::CscGraph csc;
  csc.num_nodes = num_nodes;
  csc.indptr.resize(at(num_nodes) + 1);
  for (const Edge& edge : edges) {
    ++csc.indptr[at(edge.target) + 1];
    csc.indices.push_back(edge.source);
    csc.edge_ids.push_back(edge.id);
  }
  for (std::size_t v = 0; v < at(num_nodes); ++v) csc.indptr[v + 1] += csc.indptr[v];
  return csc;
}

graph::FeatureTable draw_features(const RandomGraphOptions& options, std::mt19937_64& random) {
  graph::FeatureTable table;
  table.rows = options.num_nodes;
  table.cols = options.feature_cols;
  table.dtype = options.feature_dtype;
  auto bytes = std::make_shared<std::vector<std::byte>>(at(table.rows) * table.row_bytes());
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < bytes->size(); i += size_of(table.dtype)) {
    const float value = normal(random);
    const std::uint16_t half = table.dtype == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
    if (table.dtype == DType::f32) {
      std::memcpy(bytes->data() + i, &value, sizeof value);
    } else {
      std::memcpy(bytes->data() + i, &half, sizeof half);
    }
  }
  table.data = bytes->data();
  table.keep_alive = bytes;
  return table;
}

}  // namespace

graph::NodeWeights random_node_weights(Count num_nodes, int kinds, std::uint64_t seed) {
  graph::NodeWeights weights{.kinds = kinds};
  for (NodeId v = 0; v < num_nodes; ++v)
    for (int kind = 0; kind < kinds; ++kind)
      weights.values.push_back(
          kind == 0
              ? static_cast<std::int32_t>(99 * (num_nodes - 1 - v) / num_nodes)
              : static_cast<std::int32_t>(mix64(seed + static_cast<std::uint64_t>(v * kinds + kind)) % 100));
  return weights;
}

graph::Graph random_graph(const RandomGraphOptions& options) {
  std::mt19937_64 random{options.seed};
  graph::Graph graph;
  graph.name = "random";
  graph.undirected = options.undirected;
  graph.structure = to_csc(draw_edges(options, random), options.num_nodes);
  if (options.weights)
    for (const EdgeId id : graph.structure.edge_ids)
      graph.structure.weights.push_back(static_cast<float>(id % 100) / 4);
  graph.node_weights = random_node_weights(options.num_nodes, options.node_weight_kinds, options.seed);
  if (options.feature_cols > 0) graph.features = draw_features(options, random);
  graph.num_classes = options.labels ? (options.label_sets ? 40 : 4) : 0;
  graph.multi_label = options.label_sets;
  for (NodeId v = 0; v < options.num_nodes; ++v) {
    if (options.label_sets)
      graph.labels.insert(graph.labels.end(),
                          {static_cast<std::int32_t>(random()), static_cast<std::int32_t>(random() % 256)});
    else if (options.labels)
      graph.labels.push_back(static_cast<std::int32_t>(random() % 5) - 1);
    const auto split = random() % 5;
    if (split < 2) graph.splits.train.push_back(v);
    if (split == 2) graph.splits.valid.push_back(v);
    if (split == 3) graph.splits.test.push_back(v);
  }
  return graph;
}

graph::StoredLists stored(const graph::CscGraph& graph, bool wide, ScratchStore& scratch) {
  graph::StoredLists lists;
  lists.indptr = graph.indptr;
  const auto store = [&]<typename Id>(Id, const std::vector<std::int64_t>& ids, IdSpan& span,
                                      std::shared_ptr<const void>& memory) {
    ScratchWriter<Id> writer(scratch);
    writer.append(std::vector<Id>(ids.begin(), ids.end()));
    const ScratchArray<Id> array = std::move(writer).finish();
    span = {array.data(), array.size(), sizeof(Id) == 8};
    memory = array.keep_alive();
  };
  if (wide) {
    store(std::int64_t{}, graph.indices, lists.indices, lists.indices_memory);
    store(std::int64_t{}, graph.edge_ids, lists.edge_ids, lists.edge_ids_memory);
  } else {
    store(std::int32_t{}, graph.indices, lists.indices, lists.indices_memory);
    store(std::int32_t{}, graph.edge_ids, lists.edge_ids, lists.edge_ids_memory);
  }
  if (!graph.weights.empty()) {
    ScratchWriter<float> writer(scratch);
    writer.append(graph.weights);
    lists.weights = std::move(writer).finish();
  }
  return lists;
}

graph::CscGraph communities(Count nodes, Count pairs) {
  std::vector<std::pair<NodeId, NodeId>> entries;
  for (Count e = 0; e < pairs; ++e) {
    const std::uint64_t word = mix64(static_cast<std::uint64_t>(e) + 77);
    const auto u = static_cast<Count>(word % static_cast<std::uint64_t>(nodes));
    const auto other = static_cast<Count>(mix64(word) % static_cast<std::uint64_t>(nodes));
    const Count v = word % 10 == 0 ? other : other / 64 * 64 % nodes + u % 64;
    if (u == v || v >= nodes) continue;
    entries.emplace_back(u, v);
    entries.emplace_back(v, u);
  }
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  graph::CscGraph graph;
  graph.num_nodes = nodes;
  graph.indptr.assign(at(nodes + 1), 0);
  for (const auto& [v, u] : entries) {
    ++graph.indptr[at(v + 1)];
    graph.indices.push_back(u);
    graph.edge_ids.push_back(std::ssize(graph.edge_ids));
  }
  std::partial_sum(graph.indptr.begin(), graph.indptr.end(), graph.indptr.begin());
  return graph;
}

}  // namespace strata::test
