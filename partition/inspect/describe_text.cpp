// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "inspect/describe_types.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostClasses = 10;

std::string percent(Count part, Count whole) {
  return fmt::format("{:.1f} %",
                     whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string feature_text(const GraphSummary& s) {
  return s.feature_cols == 0 ? "none"
                             : fmt::format("{} x {}", s.feature_cols, strata::name_of(s.feature_dtype));
}

std::string node_weight_text(const GraphSummary& s) {
  std::string text;
  for (const GraphSummary::NodeWeight& weight : s.node_weights)
    text += fmt::format("{}{} in all, at most {}", text.empty() ? "" : "; ", format_count(weight.sum),
                        format_count(weight.largest));
  return text.empty() ? "none" : text;
}

std::string overview(const GraphSummary& s) {
  Table table({"graph", s.name.empty() ? "(unnamed)" : s.name});
  table.row({"nodes", format_count(s.nodes)});
  table.row({"edges", format_count(s.edges) + (s.undirected ? " (both directions)" : " (directed)")});
  table.row({"edges listed", format_count(s.cleaning.edges_read)});
  table.row({"self-loops listed", format_count(s.cleaning.self_loops)});
  table.row({"duplicates listed", format_count(s.cleaning.duplicates)});
  table.row({"components", format_count(s.components)});
  table.row({"largest component", fmt::format("{} nodes ({})", format_count(s.largest_component),
                                              percent(s.largest_component, s.nodes))});
  table.row({"features", feature_text(s)});
  table.row({"edge weights", s.has_weights ? "yes" : "none"});
  table.row({"node weights", node_weight_text(s)});
  table.row({"train / valid / test", fmt::format("{} / {} / {}", format_count(s.train), format_count(s.valid),
                                                 format_count(s.test))});
  return table.str();
}

std::string degree_tables(const GraphSummary& s) {
  const GraphSummary::Degrees& d = s.in_degrees;
  Table quantiles({"in-degree", "least", "median", "mean", "90 %", "99 %", "most"});
  quantiles.row({"", format_count(d.least), format_count(d.median), fmt::format("{:.2f}", d.mean),
                 format_count(d.p90), format_count(d.p99), format_count(d.most)});
  Table largest({"node with the most in-neighbors", "in-degree"});
  for (const GraphSummary::NodeDegree& node : d.largest)
    largest.row({std::to_string(node.node), format_count(node.degree)});
  return quantiles.str() +
         fmt::format("{} nodes have no in-neighbors\n\n", format_count(d.without_neighbors)) + largest.str();
}

std::string target_table(const GraphSummary& s) {
  Table table({"target", "nodes", "mean", "deviation", "smallest", "largest"});
  for (std::size_t i = 0; i < s.targets.size(); ++i) {
    const GraphSummary::Target& t = s.targets[i];
    table.row({std::to_string(i), format_count(t.nodes), fmt::format("{:.6g}", t.mean),
               fmt::format("{:.6g}", t.deviation), fmt::format("{:.6g}", t.smallest),
               fmt::format("{:.6g}", t.largest)});
  }
  return table.str();
}

std::string label_tables(const GraphSummary& s) {
  if (!s.targets.empty()) return target_table(s);
  if (!s.labels) return "no labels\n";
  const GraphSummary::Labels& labels = *s.labels;
  std::vector<std::size_t> classes(labels.nodes_of_class.size());
  std::iota(classes.begin(), classes.end(), std::size_t{0});
  std::ranges::stable_sort(classes, std::greater(), [&](std::size_t c) { return labels.nodes_of_class[c]; });
  const Count labelled = s.nodes - labels.unlabelled;
  Table table({fmt::format("{} classes{}", classes.size(), s.multi_label ? ", several per node" : ""),
               "nodes", "share"});
  for (std::size_t i = 0; i < std::min(classes.size(), kMostClasses); ++i) {
    const Count nodes = labels.nodes_of_class[classes[i]];
    table.row({fmt::format("class {}", classes[i]), format_count(nodes), percent(nodes, labelled)});
  }
  if (classes.size() > kMostClasses)
    table.row({fmt::format("smallest of all, class {}", classes.back()),
               format_count(labels.nodes_of_class[classes.back()]),
               percent(labels.nodes_of_class[classes.back()], labelled)});
  table.row({"without a label", format_count(labels.unlabelled), ""});
  std::string text = table.str();
  if (labels.homophily)
    text += fmt::format("edges within a class: {:.3f} of those between labelled nodes ({:.3f} by chance)\n",
                        *labels.homophily, *labels.homophily_by_chance);
  return text;
}

std::string memory_table(const GraphSummary& s) {
  Table table({"memory of training", "on one machine"});
  table.row({"neighbor lists", format_bytes(s.memory.structure_bytes)});
  table.row({"features in f32", format_bytes(s.memory.feature_bytes)});
  table.row({"  or in bf16, f16", format_bytes(s.memory.feature_bytes_16_bits)});
  table.row({"labels", format_bytes(s.memory.label_bytes)});
  table.row({"model, gradients and Adam, per rank", format_bytes(s.memory.model_bytes)});
  table.row({"input rows of a batch, per rank, at most", format_bytes(s.memory.batch_row_bytes)});
  table.row({"activations of a batch, per rank, at most", format_bytes(s.memory.batch_activation_bytes)});
  return table.str() +
         "The last three are for strata-train's defaults in f32: SAGE, hidden 256, fanouts 15,10,5, 1024 "
         "seeds. Activations include gradients and workspaces; libraries take 1 to 2 GiB of a GPU more.\n";
}

Json targets_json(const GraphSummary& s) {
  Json targets = Json::array();
  for (const GraphSummary::Target& t : s.targets)
    targets.push_back({{"nodes", t.nodes},
                       {"mean", t.mean},
                       {"deviation", t.deviation},
                       {"smallest", t.smallest},
                       {"largest", t.largest}});
  return targets;
}

}  // namespace

std::string summary_text(const GraphSummary& summary) {
  return overview(summary) + "\n" + types_text(summary) + degree_tables(summary) + "\n" +
         label_tables(summary) + "\n" + memory_table(summary);
}

std::string summary_json(const GraphSummary& s) {
  const GraphSummary::Degrees& d = s.in_degrees;
  Json largest = Json::array();
  for (const GraphSummary::NodeDegree& node : d.largest)
    largest.push_back({{"node", node.node}, {"degree", node.degree}});
  Json node_weights = Json::array();
  for (const GraphSummary::NodeWeight& weight : s.node_weights)
    node_weights.push_back({{"sum", weight.sum}, {"largest", weight.largest}});
  Json labels;
  if (s.labels)
    labels = {{"classes", s.labels->nodes_of_class.size()},
              {"nodes_of_class", s.labels->nodes_of_class},
              {"unlabelled", s.labels->unlabelled},
              {"homophily", s.labels->homophily ? Json(*s.labels->homophily) : Json()},
              {"homophily_by_chance",
               s.labels->homophily_by_chance ? Json(*s.labels->homophily_by_chance) : Json()}};
  Json json{{"name", s.name},
            {"num_nodes", s.nodes},
            {"num_edges", s.edges},
            {"undirected", s.undirected},
            {"edge_weights", s.has_weights},
            {"node_weights", node_weights},
            {"listed",
             {{"edges", s.cleaning.edges_read},
              {"self_loops", s.cleaning.self_loops},
              {"duplicates", s.cleaning.duplicates}}},
            {"in_degree",
             {{"least", d.least},
              {"median", d.median},
              {"mean", d.mean},
              {"p90", d.p90},
              {"p99", d.p99},
              {"most", d.most},
              {"without_neighbors", d.without_neighbors},
              {"largest", largest}}},
            {"components", {{"count", s.components}, {"largest", s.largest_component}}},
            {"features", {{"cols", s.feature_cols}, {"dtype", strata::name_of(s.feature_dtype)}}},
            {"labels", labels},
            {"targets", targets_json(s)},
            {"multi_label", s.multi_label},
            {"splits", {{"train", s.train}, {"valid", s.valid}, {"test", s.test}}},
            {"memory_bytes",
             {{"structure", s.memory.structure_bytes},
              {"features_f32", s.memory.feature_bytes},
              {"features_16_bits", s.memory.feature_bytes_16_bits},
              {"labels", s.memory.label_bytes},
              {"default_model_per_rank", s.memory.model_bytes},
              {"default_batch_rows_per_rank", s.memory.batch_row_bytes},
              {"default_batch_activations_per_rank", s.memory.batch_activation_bytes}}}};
  if (!s.node_types.empty()) json["types"] = types_json(s);
  return json.dump(2) + "\n";
}

}  // namespace strata::partition
