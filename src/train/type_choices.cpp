// SPDX-License-Identifier: Apache-2.0
#include "type_choices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"

namespace strata::train {
namespace {

std::string all_relations(const graph::GraphTypes& types) {
  std::vector<std::string> names;
  for (const graph::EdgeType& relation : types.edges) names.push_back(graph::joined_name_of(relation));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// [hops][relations]
std::vector<std::vector<int>> fanouts_by_relation(const TrainConfig& config, const graph::GraphTypes& types) {
  std::vector<std::vector<int>> fanouts;
  for (const int fanout : config.fanouts) fanouts.emplace_back(types.edges.size(), fanout);
  for (const RelationFanouts& named : config.relation_fanouts) {
    const std::size_t relation = relation_named(named.relation, types);
    for (std::size_t hop = 0; hop < fanouts.size(); ++hop) fanouts[hop][relation] = named.fanouts[hop];
  }
  return fanouts;
}

/// All neighbors are more than any number of them.
int larger(int a, int b) { return a < 0 || b < 0 ? -1 : std::max(a, b); }

}  // namespace

std::size_t relation_named(const std::string& name, const graph::GraphTypes& types, const char* option) {
  std::vector<std::size_t> found;
  for (std::size_t r = 0; r < types.edges.size(); ++r) {
    if (graph::joined_name_of(types.edges[r]) == name) return r;
    if (types.edges[r].name == name) found.push_back(r);
  }
  if (found.size() == 1) return found.front();
  throw InputError(found.empty()
                       ? fmt::format("{}: the graph has no relation \"{}\"", option, name)
                       : fmt::format("{}: {} relations are called \"{}\"", option, found.size(), name),
                   fmt::format("Give one of {}.", all_relations(types)));
}

std::vector<std::size_t> link_relations(const TrainConfig& config, const graph::GraphTypes& types) {
  std::vector<std::size_t> relations;
  for (std::size_t r = 0; config.relation.empty() && r < types.edges.size(); ++r) {
    const auto is_reverse = [&](const graph::EdgeType& other) {
      return types.edges[r].name == "rev_" + other.name && types.edges[r].source == other.destination &&
             types.edges[r].destination == other.source;
    };
    if (std::ranges::none_of(types.edges, is_reverse)) relations.push_back(r);
  }
  if (config.relation.empty()) return relations;
  for (const std::string_view name : options::split_list("--relation", config.relation)) {
    relations.push_back(relation_named(std::string(name), types, "--relation"));
    if (std::ranges::count(relations, relations.back()) > 1)
      throw InputError(fmt::format("--relation {}: {} stands twice", config.relation, name),
                       "Name each once.");
  }
  return relations;
}

void check_types(const TrainConfig& config, const graph::GraphTypes& types, Count feature_cols) {
  for (const RelationFanouts& named : config.relation_fanouts) relation_named(named.relation, types);
  if (config.of_links()) link_relations(config, types);
  if (config.learned_rows > 0 && types_without_features(types, feature_cols, 1).empty())
    throw InputError(
        fmt::format("--learned-rows {}: all nodes of the graph have features", config.learned_rows),
        "Leave it out: rows are learned for types without features.");
  if (!types.several()) return;
  if (config.own_model.empty() && !nn::takes_types(config.model))
    throw InputError(
        fmt::format("--model {}: the graph has {} types of nodes and {} relations, and {} takes "
                    "one of each",
                    enum_name(config.model), types.nodes.size(), types.edges.size(), enum_name(config.model)),
        config.of_links() ? "Give --model rgcn, rsage, rgat, hgt or none."
                          : "Give --model rgcn, rsage, rgat or hgt.");
}

void choose_fanouts(const TrainConfig& config, const graph::GraphTypes& types,
                    sampling::SamplerOptions& options) {
  options.fanouts = config.fanouts;
  if (config.relation_fanouts.empty()) return;
  options.relation_fanouts = fanouts_by_relation(config, types);
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    const std::vector<int>& of_hop = options.relation_fanouts[hop];
    options.fanouts[hop] = of_hop.front();
    for (const int fanout : of_hop) options.fanouts[hop] = larger(options.fanouts[hop], fanout);
  }
  if (types.edges.size() == 1) options.relation_fanouts.clear();
}

std::vector<int> most_neighbors(const TrainConfig& config, const graph::GraphTypes& types) {
  std::vector<int> most;
  for (const std::vector<int>& of_hop : fanouts_by_relation(config, types)) {
    most.push_back(0);
    for (const std::string& type : types.nodes) {
      std::int64_t sum = 0;
      bool all = false;
      for (std::size_t r = 0; r < of_hop.size(); ++r) {
        if (types.edges[r].destination != type) continue;
        all = all || of_hop[r] < 0;
        sum += of_hop[r];
      }
      constexpr std::int64_t kMost = std::numeric_limits<int>::max();
      most.back() = larger(most.back(), all ? -1 : static_cast<int>(std::min(sum, kMost)));
    }
  }
  return most;
}

TargetType type_named(const std::string& name, const graph::GraphTypes& types, Count num_nodes) {
  const auto found = std::ranges::find(types.nodes, name);
  if (found == types.nodes.end())
    throw InputError(fmt::format("--target {}: the graph has no such type of nodes", name),
                     fmt::format("Give one of {}.", fmt::join(types.nodes, ", ")));
  return {name,
          graph::nodes_of_type(types, static_cast<std::size_t>(found - types.nodes.begin()), num_nodes)};
}

TargetType all_types(const store::MachineGraph& graph) {
  return {"", {0, graph.manifest().book.num_nodes()}};
}

TargetType find_target(const std::string& name, const store::MachineGraph& graph) {
  const graph::GraphTypes& types = graph.manifest().types;
  const Count num_nodes = graph.manifest().book.num_nodes();
  if (!name.empty()) return type_named(name, types, num_nodes);
  if (types.nodes.size() == 1) return {types.nodes.front(), {0, num_nodes}};
  const std::span<const NodeId> train = graph.train_nodes();  // ascending by original id
  const store::GraphView& view = graph.host_view();
  const auto type_of = [&](NodeId node) { return graph::type_of_node(types, view.original_ids[node]); };
  if (!train.empty() && type_of(train.front()) == type_of(train.back())) {
    const std::size_t type = type_of(train.front());
    return {types.nodes[type], graph::nodes_of_type(types, type, num_nodes)};
  }
  throw InputError(train.empty() ? "the graph has several types of nodes, and none is in the training split"
                                 : "the training split has nodes of several types",
                   fmt::format("Give --target with one of {}.", fmt::join(types.nodes, ", ")));
}

std::vector<LearnedType> types_without_features(const graph::GraphTypes& types, Count feature_cols,
                                                Count num_nodes) {
  std::vector<LearnedType> without;
  for (std::size_t t = 0; t < types.nodes.size(); ++t) {
    const Range nodes = graph::nodes_of_type(types, t, num_nodes);
    const Count cols = types.feature_cols.empty() ? feature_cols : types.feature_cols[t];
    if (cols == 0 && nodes.count > 0) without.push_back({types.nodes[t], nodes});
  }
  return without;
}

std::int64_t InputShape::learned_bytes() const {
  const Count states = optimizer == RowOptimizer::adam ? 2 * learned_cols + 1 : 1;
  return learned_rows * (learned_cols + states) * static_cast<Count>(sizeof(float));
}

InputShape input_shape(const TrainConfig& config, const graph::GraphTypes& types, Count feature_cols,
                       Count num_nodes) {
  InputShape shape{.feature_cols = feature_cols, .optimizer = config.learned_optimizer};
  if (config.learned_rows == 0) return shape;
  shape.learned_cols = config.learned_rows;
  for (const LearnedType& type : types_without_features(types, feature_cols, num_nodes))
    shape.learned_rows += type.original_ids.count;
  return shape;
}

Count input_cols(const TrainConfig& config, const graph::Manifest& manifest) {
  return input_shape(config, manifest.types, manifest.feature_cols, manifest.book.num_nodes()).cols();
}

Count output_cols_for_decoder(const TrainConfig& config, const graph::Manifest& manifest) {
  const bool has_layers = !config.own_model.empty() || config.model != nn::ModelKind::none;
  return has_layers ? config.hidden : input_cols(config, manifest);
}

std::string missing_features(const TrainConfig& config, const graph::Manifest& manifest) {
  if (config.learned_rows > 0) return "";
  std::vector<std::string> without;
  for (const LearnedType& type :
       types_without_features(manifest.types, manifest.feature_cols, manifest.book.num_nodes()))
    without.push_back(type.name);
  if (without.empty()) return "";
  return fmt::format(
      "nodes of the types {} have no features: the model sees zeros for them, and in its first layer only "
      "their number; --learned-rows 64 learns a row for each of them",
      fmt::join(without, ", "));
}

}  // namespace strata::train
