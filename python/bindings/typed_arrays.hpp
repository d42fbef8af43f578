// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "strata/graph/read_graph.hpp"

namespace strata::python {

/// A graph of several types: (name, nodes) of each, and (source, relation, destination, edge_index, weights)
/// of each relation; the rest is as graph::TypedArrays has it.
struct TypedArrays {
  using Ends = std::tuple<std::string, std::string, std::string>;
  std::vector<std::pair<std::string, Count>> nodes;
  std::vector<std::tuple<Ends, HostArray, std::optional<HostArray>>> edges;
  std::optional<HostArray> x, y, train, valid, test;
  std::vector<Count> feature_cols;

  graph::TypedArrays views() const {
    graph::TypedArrays arrays;
    for (const auto& [array, name, to] :
         {std::tuple(&x, "x", &arrays.x), std::tuple(&y, "y", &arrays.y),
          std::tuple(&train, "train", &arrays.train), std::tuple(&valid, "valid", &arrays.valid),
          std::tuple(&test, "test", &arrays.test)})
      if (*array) *to = npy_of(**array, name);
    arrays.feature_cols = feature_cols;
    for (const auto& [type, count] : nodes) arrays.nodes.push_back({type, count});
    for (const auto& [ends, edge_index, weights] : edges) {
      const auto& [source, name, destination] = ends;
      auto& relation = arrays.edges.emplace_back();
      relation.type = {source, name, destination};
      relation.edge_index = npy_of(edge_index, "edge_index");
      if (weights) relation.edge_weight = npy_of(*weights, "edge_weight");
    }
    return arrays;
  }
};

}  // namespace strata::python
