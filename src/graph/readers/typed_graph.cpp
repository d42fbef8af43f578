// SPDX-License-Identifier: Apache-2.0
#include "readers/typed_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "readers/columns.hpp"
#include "strata/util/error.hpp"
#include "strata/util/label_sets.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

constexpr Count kRowsPerCopy = 2048;

std::vector<std::string> types_of(const std::vector<TypedParts::Nodes>& nodes) {
  std::vector<std::string> types;
  for (const TypedParts::Nodes& type : nodes) types.push_back(printable(type.type));
  return types;
}

/// Copies the rows of a type, of which each fills up with zeros.
void copy_rows(const FeatureTable& features, Count rows, FeatureTable& table, std::byte* out,
               ThreadPool& pool, ScratchStore* scratch) {
  const std::size_t row_bytes = table.row_bytes();
  const bool widen = features.cols > 0 && features.dtype != table.dtype;
  const std::size_t used = at(features.cols) * size_of(table.dtype);
  pool.parallel_for(rows, kRowsPerCopy, [&](Count begin, Count end) {
    for (Count row = begin; row < end; ++row) {
      std::byte* const to = out + at(row) * row_bytes;
      const std::byte* const from = features.data + at(row) * features.row_bytes();
      if (widen)
        for (Count col = 0; col < features.cols; ++col)
          reinterpret_cast<float*>(to)[col] = f16_to_f32(reinterpret_cast<const std::uint16_t*>(from)[col]);
      else if (used > 0)
        std::memcpy(to, from, used);
      std::memset(to + used, 0, row_bytes - used);
    }
    if (scratch != nullptr) scratch->trim();
  });
}

/// The names of all nodes; types without names have their numbers.
std::string names_of(const std::vector<TypedParts::Nodes>& nodes) {
  if (std::ranges::all_of(nodes, [](const auto& type) { return type.names.empty(); })) return {};
  std::string names;
  for (const TypedParts::Nodes& type : nodes) {
    names += type.names;
    for (Count v = 0; type.names.empty() && v < type.count; ++v) names += fmt::format("{}\n", v);
  }
  return names;
}

/// Lines [first, last) of a text.
std::string lines_of(std::string_view text, Count first, Count last) {
  const auto skip = [&](Count lines, std::size_t from) {
    for (; lines > 0 && from < text.size(); --lines) from = text.find('\n', from) + 1;
    return from;
  };
  const std::size_t begin = skip(first, 0);
  return std::string(text.substr(begin, skip(last - first, begin) - begin));
}

/// The members of [first, last) of a split, by their numbers from `first` on.
std::vector<NodeId> within(const std::vector<NodeId>& split, NodeId first, NodeId last) {
  std::vector<NodeId> nodes;
  for (const NodeId node : split)
    if (node >= first && node < last) nodes.push_back(node - first);
  return nodes;
}

/// A split of a type's nodes by their numbers in the graph. Refuses ids that the type does not have, because
/// they would become nodes of another type.
std::vector<NodeId> moved(std::vector<NodeId> split, const char* name, const Graph& nodes, NodeId by) {
  for (NodeId& node : split) {
    if (node < 0 || node >= nodes.num_nodes())
      throw InputError(fmt::format("{}: split '{}' holds node {}, but ids must be within [0, {})", nodes.name,
                                   name, node, nodes.num_nodes()),
                       "Correct the split; ids count from 0 within each type.");
    node += by;
  }
  return split;
}

std::string kind_of_labels(const Graph& graph) {
  if (graph.target_cols > 0) return counted(graph.target_cols, "target");
  return graph.multi_label ? fmt::format("sets of {} classes", graph.num_classes) : "one class per node";
}

bool has_labels_outside(const Graph& graph, Range ids) {
  const LabelShape shape = graph.label_shape();
  for (NodeId v = 0; v < graph.num_nodes() && !graph.labels.empty(); ++v) {
    if (v == ids.first) v = ids.end();
    if (v >= graph.num_nodes()) break;
    if (!shape.is_missing(graph.labels.data() + v * shape.words())) return true;
  }
  return false;
}

}  // namespace

EdgeType parse_relation(const std::string& text, const std::string& separator, const std::string& origin) {
  const std::size_t first = text.find(separator), last = text.rfind(separator);
  if (first == text.npos || first == 0 || last < first + separator.size() + 1 ||
      last + separator.size() == text.size())
    throw InputError(
        fmt::format("{}: '{}' does not name a relation", origin, printable(text)),
        fmt::format("Relations are named SOURCE{0}NAME{0}DESTINATION, as author{0}writes{0}paper.",
                    separator));
  return {.source = text.substr(0, first),
          .name = text.substr(first + separator.size(), last - first - separator.size()),
          .destination = text.substr(last + separator.size())};
}

TypedParts::Edges edges_between(EdgeType type, const NpyArray& ends, ScratchStore* scratch) {
  const auto owner = std::make_shared<const EdgeArray>(edges_of(ends, scratch));
  return {.type = std::move(type), .list = owner->list, .owners = {owner}};
}

TypedParts::Edges edges_between(EdgeType type, EdgeBuffer ends) {
  const auto owner = std::make_shared<EdgeBuffer>(std::move(ends));
  return {.type = std::move(type), .list = owner->list(), .owners = {owner}};
}

void give_weights(TypedParts::Edges& edges, EdgeWeights weights, const std::string& origin) {
  const auto owner = std::make_shared<EdgeWeights>(std::move(weights));
  owner->give_to(edges.list, origin);
  edges.owners.push_back(owner);
}

void add_reverses(TypedParts& parts) {
  const std::size_t listed = parts.edges.size();
  for (std::size_t r = 0; r < listed; ++r) {
    TypedParts::Edges reverse = parts.edges[r];
    reverse.type.name = "rev_" + reverse.type.name;
    std::swap(reverse.type.source, reverse.type.destination);
    std::swap(reverse.list.sources, reverse.list.destinations);
    parts.edges.push_back(std::move(reverse));
  }
}

std::vector<std::size_t> choose_targets(const std::vector<TypedParts::Nodes>& nodes,
                                        const std::vector<std::size_t>& labelled, const std::string& wanted,
                                        const std::string& origin) {
  if (wanted.empty()) return labelled.empty() && nodes.size() == 1 ? std::vector<std::size_t>{0} : labelled;
  const std::vector<std::string> types = types_of(nodes);
  std::vector<std::string> with_labels;
  for (const std::size_t type : labelled) with_labels.push_back(types[type]);
  const auto found = std::ranges::find(nodes, wanted, &TypedParts::Nodes::type);
  if (found == nodes.end())
    throw InputError(fmt::format("{}: target={} is no type of its nodes", origin, printable(wanted)),
                     fmt::format("There are: {}.", fmt::join(types, ", ")));
  std::erase(with_labels, printable(wanted));
  if (!with_labels.empty())
    spdlog::warn("{}: labels and splits of {} are not used", origin, fmt::join(with_labels, ", "));
  return {static_cast<std::size_t>(found - nodes.begin())};
}

Graph join_types(TypedParts parts, const ReadOptions& options, Assembly& assembly) {
  Graph graph;
  graph.name = std::move(parts.name);
  const bool undirected = options.direction == ReadOptions::Direction::undirected;
  if (parts.nodes.size() == 1 && parts.edges.size() == 1) {
    build_structure(graph, parts.nodes[0].count, parts.edges[0].list, options, undirected, assembly);
    graph.features = std::move(parts.nodes[0].features);
    graph.node_names = std::move(parts.nodes[0].names);
    return graph;
  }
  if (undirected)
    throw InputError(
        fmt::format("{}: relations have a direction, and --direction undirected adds none", graph.name),
        "Write ',reverse' behind the input: every relation then has one in the other direction.");
  Count nodes = 0;
  for (const TypedParts::Nodes& type : parts.nodes) nodes += type.count;
  if (options.on_nodes_known) options.on_nodes_known(nodes);
  if (assembly.scratch == nullptr)
    join_lists(parts, options, assembly.pool, graph);
  else
    join_stored_lists(parts, options, assembly, graph);
  join_features(parts, assembly.pool, graph, assembly.scratch);
  graph.node_names = names_of(parts.nodes);
  return graph;
}

void join_features(const TypedParts& parts, ThreadPool& pool, Graph& graph, ScratchStore* scratch) {
  Count cols = 0;
  DType dtype = DType::f16;
  std::vector<Count> feature_cols;
  for (const TypedParts::Nodes& type : parts.nodes) {
    feature_cols.push_back(type.features.cols);
    cols = std::max(cols, type.features.cols);
    if (type.features.cols > 0 && type.features.dtype != DType::f16) dtype = DType::f32;
  }
  if (cols == 0) return;
  if (parts.nodes.size() == 1) {
    graph.features = parts.nodes[0].features;
    return;
  }
  FeatureMemory memory = allocate_features(graph.num_nodes(), cols, dtype, scratch);
  std::byte* out = memory.bytes;
  for (const TypedParts::Nodes& type : parts.nodes) {
    copy_rows(type.features, type.count, memory.table, out, pool, scratch);
    out += at(type.count) * memory.table.row_bytes();
  }
  graph.features = memory.table;
  graph.types.feature_cols = std::move(feature_cols);
}

Graph nodes_of(const Graph& graph, std::size_t type) {
  const bool all = graph.types.nodes.size() == 1;
  const Range ids = nodes_of_type(graph.types, type, graph.num_nodes());
  const NodeId first = ids.first, last = ids.end();
  Graph nodes;
  nodes.name = all ? graph.name : fmt::format("{}: {}", graph.name, graph.types.nodes[type]);
  nodes.structure.num_nodes = last - first;
  if (all) nodes.features = graph.features;
  nodes.num_classes = graph.num_classes;
  nodes.multi_label = graph.multi_label;
  nodes.target_cols = graph.target_cols;
  if (!graph.labels.empty())
    nodes.labels.assign(graph.labels.begin() + first * graph.label_words(),
                        graph.labels.begin() + last * graph.label_words());
  nodes.splits = {.train = within(graph.splits.train, first, last),
                  .valid = within(graph.splits.valid, first, last),
                  .test = within(graph.splits.test, first, last)};
  nodes.node_names = lines_of(graph.node_names, first, last);
  return nodes;
}

void put_nodes(Graph nodes, std::size_t type, Graph& graph) {
  const Range ids = nodes_of_type(graph.types, type, graph.num_nodes());
  const bool others = has_labels_outside(graph, ids);
  const bool alike = nodes.multi_label == graph.multi_label && nodes.target_cols == graph.target_cols &&
                     (!nodes.multi_label || nodes.num_classes == graph.num_classes);
  if (others && !nodes.labels.empty() && !alike)
    throw InputError(fmt::format("{}: {}, but other types have {}", nodes.name, kind_of_labels(nodes),
                                 kind_of_labels(graph)),
                     "Read the labels of one type of nodes: write ',target=TYPE' behind the input.");
  if (!others) {
    graph.num_classes = nodes.num_classes;
    graph.multi_label = nodes.multi_label;
    graph.target_cols = nodes.target_cols;
    graph.labels.clear();
  }
  graph.num_classes = std::max(graph.num_classes, nodes.num_classes);
  if (nodes.num_nodes() == graph.num_nodes()) {
    graph.labels = std::move(nodes.labels);
  } else if (others || !nodes.labels.empty()) {
    const LabelShape shape = graph.label_shape();
    if (graph.labels.empty()) graph.labels = missing_labels(graph.num_nodes(), shape).values;
    if (nodes.labels.empty()) nodes.labels = missing_labels(nodes.num_nodes(), shape).values;
    std::ranges::copy(nodes.labels, graph.labels.begin() + ids.first * graph.label_words());
  }
  if (graph.types.nodes.size() == 1) graph.features = nodes.features;
  const auto put = [&](std::vector<NodeId>& split, std::vector<NodeId> own, const char* name) {
    std::erase_if(split, [&](NodeId v) { return v >= ids.first && v < ids.end(); });
    const auto after = std::ranges::find_if(split, [&](NodeId v) { return v >= ids.end(); });
    own = moved(std::move(own), name, nodes, ids.first);
    split.insert(after, own.begin(), own.end());
  };
  put(graph.splits.train, std::move(nodes.splits.train), "train");
  put(graph.splits.valid, std::move(nodes.splits.valid), "valid");
  put(graph.splits.test, std::move(nodes.splits.test), "test");
}

}  // namespace strata::graph
