// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "inspect/describe_types.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

using Json = nlohmann::ordered_json;

std::string percent_text(Count part, Count whole) {
  return fmt::format("{:.2f} %",
                     whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

Count largest(const std::vector<Count>& weights) {
  return weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
}

std::string label_text(const graph::Manifest& m) {
  if (!m.has_labels) return "none";
  if (!m.targets.empty()) return fmt::format("{} of regression", counted(std::ssize(m.targets), "target"));
  return fmt::format("{} classes{}", m.num_classes, m.multi_label ? ", several a node" : "");
}

std::string cut_text(const graph::PartitionRecord& record, const Summary& sum) {
  const graph::Manifest& m = record.manifest;
  const std::string stored = fmt::format("{} of {} ({})", format_count(sum.cut_edges),
                                         format_count(m.num_edges), percent_text(sum.cut_edges, m.num_edges));
  return m.undirected ? fmt::format("{}; {} undirected", stored, format_count(sum.cut_edges / 2)) : stored;
}

std::string replicated_text(const graph::Manifest& m) {
  std::vector<std::string> types;
  std::int64_t bytes = 0;
  for (const std::size_t type : m.replicated_types) {
    types.push_back(printable(m.types.nodes[type]));
    bytes += graph::bytes_of_copies(m, type);
  }
  return types.empty() ? "none" : fmt::format("{} ({})", fmt::join(types, ", "), format_bytes(bytes));
}

Json replicated_json(const graph::Manifest& m) {
  Json types = Json::array();
  for (const std::size_t type : m.replicated_types)
    types.push_back({{"type", m.types.nodes[type]}, {"bytes", graph::bytes_of_copies(m, type)}});
  return types;
}

std::string overview(const graph::PartitionRecord& record, const Summary& sum) {
  const graph::Manifest& m = record.manifest;
  Table table({"graph", m.name.empty() ? "(unnamed)" : m.name});
  table.row({"parts", format_count(m.book.num_parts())});
  if (m.num_clusters > 0) table.row({"clusters per part", format_count(m.num_clusters)});
  table.row({"nodes", format_count(m.book.num_nodes())});
  table.row({"edges", format_count(m.num_edges) + (m.undirected ? " (both directions)" : " (directed)")});
  table.row({"edge cut", cut_text(record, sum)});
  table.row({"halo nodes", format_count(sum.halo_nodes)});
  table.row({"replication factor", fmt::format("{:.3f}", sum.replication)});
  table.row(
      {"features", m.feature_cols == 0 ? "none" : fmt::format("{} x {}", m.feature_cols, m.feature_type())});
  table.row({"edge weights", m.has_edge_weights ? "f32" : "none"});
  table.row({"labels", label_text(m)});
  table.row({"train / valid / test", fmt::format("{} / {} / {}", format_count(m.num_train),
                                                 format_count(m.num_valid), format_count(m.num_test))});
  if (m.holds_edges_out())
    table.row({"valid / test edges held out",
               fmt::format("{} / {}", format_count(m.num_valid_edges), format_count(m.num_test_edges))});
  if (m.types.nodes.size() > 1) table.row({"types on every machine", replicated_text(m)});
  table.row({"size", format_bytes(sum.bytes)});
  table.row({"  features", format_bytes(sum.feature_bytes)});
  table.row({"  structure", format_bytes(sum.structure_bytes)});
  table.row({"method", fmt::format("{}, seed {}", record.build.method, record.build.seed)});
  table.row({"input", record.build.input});
  table.row({"build id", m.build_id});
  if (!record.graph_digest.empty()) table.row({"graph digest", record.graph_digest});
  return table.str();
}

std::string balances(const graph::PartitionRecord& record) {
  Table table({"balance of", "largest part", "mean", "largest / mean", "asked"});
  for (const graph::ConstraintRecord& c : record.constraints) {
    Count total = 0;
    for (const Count w : c.weights) total += w;
    table.row({c.name, format_count(largest(c.weights)),
               format_count(total / std::max<Count>(1, static_cast<Count>(c.weights.size()))),
               fmt::format("{:.3f}", c.balance()),
               c.balanced ? fmt::format("{:.3f}", 1 + c.imbalance) : "-"});
  }
  return table.str();
}

std::string parts_table(const graph::PartitionRecord& record) {
  Table table({"part", "nodes", "edges", "halo nodes", "cut edges", "train", "size"});
  const auto offsets = record.manifest.book.offsets();
  for (std::size_t p = 0; p < record.parts.size(); ++p) {
    const graph::PartRecord& part = record.parts[p];
    std::string train = "-";
    for (const graph::ConstraintRecord& c : record.constraints) {
      if (c.name == "train" && p < c.weights.size()) train = format_count(c.weights[p]);
    }
    table.row({std::to_string(p), format_count(offsets[p + 1] - offsets[p]), format_count(part.num_edges),
               format_count(part.halo_nodes), format_count(part.cut_edges), train, format_bytes(part.bytes)});
  }
  return table.str();
}

}  // namespace

Summary summarize(const graph::PartitionRecord& record) {
  Summary sum;
  for (const graph::PartRecord& part : record.parts) {
    sum.halo_nodes += part.halo_nodes;
    sum.cut_edges += part.cut_edges;
    sum.bytes += part.bytes;
    for (const graph::DatasetRecord& d : part.datasets) {
      Count bytes = static_cast<Count>(size_of(parse_dtype(d.dtype)));
      for (const Count dim : d.shape) bytes *= dim;
      if (d.name.ends_with("/feat")) sum.feature_bytes += bytes;
      if (d.name.starts_with("/edges/")) sum.structure_bytes += bytes;
    }
  }
  if (const Count nodes = record.manifest.book.num_nodes(); nodes > 0) {
    sum.replication = static_cast<double>(nodes + sum.halo_nodes) / static_cast<double>(nodes);
  }
  return sum;
}

std::string info_text(const graph::PartitionRecord& record) {
  return overview(record, summarize(record)) + "\n" + types_text(types_of(record)) + balances(record) + "\n" +
         parts_table(record);
}

std::string info_json(const graph::PartitionRecord& record) {
  const graph::Manifest& m = record.manifest;
  const Summary sum = summarize(record);
  const auto offsets = m.book.offsets();
  Json parts = Json::array(), constraints = Json::array();
  for (std::size_t p = 0; p < record.parts.size(); ++p) {
    const graph::PartRecord& part = record.parts[p];
    parts.push_back({{"nodes", offsets[p + 1] - offsets[p]},
                     {"edges", part.num_edges},
                     {"halo_nodes", part.halo_nodes},
                     {"cut_edges", part.cut_edges},
                     {"bytes", part.bytes}});
  }
  for (const graph::ConstraintRecord& c : record.constraints) {
    constraints.push_back({{"name", c.name},
                           {"balance", c.balance()},
                           {"asked", c.balanced ? Json(1 + c.imbalance) : Json()},
                           {"weights", c.weights}});
  }
  Json json{
      {"name", m.name},
      {"build_id", m.build_id},
      {"graph_digest", record.graph_digest},
      {"input", record.build.input},
      {"method", record.build.method},
      {"seed", record.build.seed},
      {"num_parts", m.book.num_parts()},
      {"num_nodes", m.book.num_nodes()},
      {"num_edges", m.num_edges},
      {"clusters", m.num_clusters},
      {"undirected", m.undirected},
      {"edge_weights", m.has_edge_weights},
      {"cut_edges", sum.cut_edges},
      {"halo_nodes", sum.halo_nodes},
      {"replication_factor", sum.replication},
      {"features", {{"cols", m.feature_cols}, {"dtype", m.feature_type()}}},
      {"classes", m.has_labels ? Json(m.num_classes) : Json()},
      {"multi_label", m.multi_label},
      {"targets", m.targets.size()},
      {"splits", {{"train", m.num_train}, {"valid", m.num_valid}, {"test", m.num_test}}},
      {"bytes", {{"total", sum.bytes}, {"features", sum.feature_bytes}, {"structure", sum.structure_bytes}}},
      {"constraints", constraints},
      {"parts", parts}};
  if (m.types.typed()) json["types"] = types_json(types_of(record));
  if (m.types.nodes.size() > 1) json["replicated_types"] = replicated_json(m);
  if (m.holds_edges_out()) json["edge_splits"] = {{"valid", m.num_valid_edges}, {"test", m.num_test_edges}};
  return json.dump(2) + "\n";
}

}  // namespace strata::partition
