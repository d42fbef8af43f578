// SPDX-License-Identifier: Apache-2.0
#include "support/typed_graph.hpp"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "strata/graph/read_graph.hpp"

namespace strata::test {
namespace {

template <typename T>
graph::NpyArray array_of(std::vector<T> values, std::vector<Count> shape, char kind) {
  const auto held = std::make_shared<std::vector<T>>(std::move(values));
  graph::NpyArray array;
  array.origin = "random";
  array.kind = kind;
  array.item_bytes = sizeof(T);
  array.shape = std::move(shape);
  array.data = reinterpret_cast<const std::byte*>(held->data());
  array.keep_alive = held;
  return array;
}

/// Features in multiples of 1/8, which no type rounds.
std::vector<float> rows_of(const TypedGraphOptions& options, std::mt19937_64& random) {
  const Count nodes = options.papers + options.authors + options.venues;
  std::vector<float> rows;
  for (Count v = 0; v < nodes; ++v)
    for (Count c = 0; c < options.feature_cols; ++c) {
      const bool has = v < options.papers || (v < options.papers + options.authors && c < 2);
      rows.push_back(has ? static_cast<float>(random() % 64) / 8 : 0);
    }
  return rows;
}

void give_node_arrays(graph::TypedArrays& arrays, const TypedGraphOptions& options, std::mt19937_64& random) {
  const Count nodes = options.papers + options.authors + options.venues;
  std::vector<std::int64_t> labels(at(nodes), -1), splits[3];
  for (Count v = 0; v < options.papers; ++v) {
    labels[at(v)] = static_cast<std::int64_t>(random() % 4);
    splits[random() % 3].push_back(v);
  }
  arrays.y = array_of(std::move(labels), {nodes}, 'i');
  graph::NpyArray* const to[] = {&arrays.train, &arrays.valid, &arrays.test};
  for (int s = 0; s < 3; ++s) {
    const Count size = std::ssize(splits[s]);
    *to[s] = array_of(std::move(splits[s]), {size}, 'i');
  }
}

}  // namespace

graph::Graph random_typed_graph(const TypedGraphOptions& options) {
  std::mt19937_64 random(options.seed);
  graph::TypedArrays arrays;
  arrays.name = "typed";
  const std::vector<std::pair<std::string, Count>> counts{
      {"paper", options.papers}, {"nothing", 0}, {"author", options.authors}, {"venue", options.venues}};
  for (const auto& [type, count] : counts) arrays.nodes.push_back({type, count});
  const auto count_of = [&](const std::string& type) {
    for (const auto& [name, count] : counts)
      if (name == type) return count;
    return Count{0};
  };
  const auto add = [&](graph::EdgeType type, Count edges) {
    std::vector<std::int64_t> ends;
    for (const std::string& end : {type.source, type.destination})
      for (Count e = 0; e < edges; ++e)
        ends.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count_of(end))));
    graph::TypedArrays::Edges& relation = arrays.edges.emplace_back();
    relation.type = std::move(type);
    relation.edge_index = array_of(std::move(ends), {2, edges}, 'i');
    if (!options.weights || arrays.edges.size() % 2 == 0) return;
    std::vector<float> weights;
    for (Count e = 0; e < edges; ++e) weights.push_back(static_cast<float>(random() % 4));
    relation.edge_weight = array_of(std::move(weights), {edges}, 'f');
  };
  add({"author", "writes", "paper"}, 5 * options.papers);
  add({"paper", "cites", "paper"}, 8 * options.papers);
  add({"paper", "likes", "paper"}, options.papers);
  add({"author", "knows", "author"}, 0);
  add({"paper", "written_by", "author"}, 5 * options.papers);
  add({"venue", "shows", "paper"}, options.papers);
  for (int r = 0; r < options.more_relations; ++r) add({"paper", "more" + std::to_string(r), "paper"}, 3);
  const Count nodes = options.papers + options.authors + options.venues;
  if (options.feature_cols > 0) {
    arrays.x = array_of(rows_of(options, random), {nodes, options.feature_cols}, 'f');
    arrays.feature_cols = {options.feature_cols, 0, 2, 0};
  }
  give_node_arrays(arrays, options, random);
  return graph::graph_from_typed_arrays(arrays, 2);
}

}  // namespace strata::test
