// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

#include "strata/partition/inspect.hpp"
#include "strata/partition/report.hpp"
#include "strata/util/format.hpp"
#include "strata/util/utf8.hpp"

namespace strata::partition {
namespace {

constexpr double kWidth = 720, kHeight = 150, kMatrix = 520;

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; max-width: 780px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin-top: 2em; }
table { border-collapse: collapse; } td, th { padding: .15em 1em .15em 0; text-align: right; }
td:first-child, th:first-child, table.facts td { text-align: left; vertical-align: top; }
table.facts td { overflow-wrap: anywhere; } table.facts td:first-child { white-space: nowrap; }
svg { display: block; max-width: 100%; height: auto; background: #f6f6f4; } text { font: 11px system-ui, sans-serif; fill: #444; }
.good { fill: #4a7fb0; } .bad { fill: #c8402f; } .line { stroke: #222; stroke-dasharray: 4 3; }
p.bad { color: #c8402f; font-weight: bold; } p.note { color: #666; } summary { cursor: pointer; }
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::string svg(double width, double height, const std::string& contents) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\">{2}</svg>\n",
      width, height, contents);
}

std::string rect(double x, double y, double width, double height, const std::string& look,
                 const std::string& title) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}><title>{}</title></rect>", x, y,
      width, height, look, escaped(title));
}

std::string row(const char* cell, const std::vector<std::string>& values) {
  std::string text = "<tr>";
  for (const std::string& value : values) text += fmt::format("<{0}>{1}</{0}>", cell, escaped(value));
  return text + "</tr>\n";
}

/// The first row has the titles of the columns.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) text += row(i == 0 ? "th" : "td", rows[i]);
  return text + "</table>\n";
}

/// What stands in each row is named by its first cell.
std::string facts(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<table class=\"facts\">\n";
  for (const std::vector<std::string>& values : rows) text += row("td", values);
  return text + "</table>\n";
}

/// A bar per value from 0 upwards, with a line at `limit` (0: none); what exceeds it is red.
std::string bars(const std::vector<double>& values, double limit,
                 const std::function<std::string(std::size_t)>& title) {
  const double most = std::max(limit, values.empty() ? 0 : *std::ranges::max_element(values)) * 1.08;
  if (most <= 0) return "";
  const double step = kWidth / static_cast<double>(values.size());
  std::string contents;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double height = values[i] / most * kHeight;
    const bool bad = limit > 0 && values[i] > limit * (1 + 1e-9);
    contents += rect(static_cast<double>(i) * step, kHeight - height, std::max(step * 0.9, 0.5), height,
                     bad ? "class=\"bad\"" : "class=\"good\"", title(i));
  }
  if (limit > 0) {
    const double y = kHeight - limit / most * kHeight;
    contents +=
        fmt::format("<line class=\"line\" x1=\"0\" x2=\"{}\" y1=\"{:.2f}\" y2=\"{:.2f}\"/>", kWidth, y, y);
  }
  return svg(kWidth, kHeight, contents);
}

double percent_of(Count some, Count all) {
  return all == 0 ? 0 : 100.0 * static_cast<double>(some) / static_cast<double>(all);
}

/// Of edges whose ends are drawn among all nodes, how many leave a part.
double percent_by_chance(const graph::PartitionBook& book) {
  double within = 0;
  for (std::size_t part = 0; part + 1 < book.offsets().size(); ++part) {
    const double share = percent_of(book.offsets()[part + 1] - book.offsets()[part], book.num_nodes()) / 100;
    within += share * share;
  }
  return 100 * (1 - within);
}

/// What the cut is worth, in a sentence.
std::string verdict(const BuildReport& report) {
  const graph::PartitionRecord& record = report.record;
  const Count edges = record.manifest.num_edges;
  if (record.parts.size() == 1 || edges == 0) return "";
  const double cut = percent_of(summarize(record).cut_edges, edges),
               chance = percent_by_chance(record.manifest.book);
  const bool bad = cut > 0.9 * chance;
  return fmt::format(
      "<p{}>{:.1f} % of all edges join nodes of different parts; {:.1f} % would if nodes were dealt at "
      "random{}</p>\n",
      bad ? " class=\"bad\"" : "", cut, chance, bad ? ". The parts follow no structure of the graph." : ".");
}

std::string summary(const BuildReport& report) {
  const graph::PartitionRecord& record = report.record;
  const Summary sum = summarize(record);
  return facts({{"input", record.build.input},
                {"made by", record.build.program},
                {"method", fmt::format("{}, seed {}", record.build.method, record.build.seed)},
                {"nodes", format_count(record.manifest.book.num_nodes())},
                {"edges", format_count(record.manifest.num_edges)},
                {"parts", format_count(std::ssize(record.parts))},
                {"edges between parts", fmt::format("{} ({:.2f} %)", format_count(sum.cut_edges),
                                                    percent_of(sum.cut_edges, record.manifest.num_edges))},
                {"halo nodes", format_count(sum.halo_nodes)},
                {"replication factor", fmt::format("{:.3f}", sum.replication)},
                {"size on disk", format_bytes(sum.bytes)}});
}

std::string balance(const graph::ConstraintRecord& c) {
  const Count total = std::accumulate(c.weights.begin(), c.weights.end(), Count{0});
  if (total == 0) return fmt::format("<p class=\"note\">The graph has no {}.</p>\n", escaped(c.name));
  const double mean = static_cast<double>(total) / static_cast<double>(c.weights.size());
  const double limit = c.balanced ? mean * (1 + c.imbalance) : 0;
  const bool bad = c.balanced && c.balance() > 1 + c.imbalance + 1e-9 &&
                   static_cast<double>(*std::ranges::max_element(c.weights)) > std::ceil(mean);
  std::string text = fmt::format(
      "<p{}>{}: the largest part has {:.3f} times the mean of {}{}</p>\n", bad ? " class=\"bad\"" : "",
      escaped(c.name), c.balance(), format_count(static_cast<Count>(std::llround(mean))),
      !c.balanced ? " (balance was not asked for)"
      : bad       ? fmt::format(": more than the {:.3f} that were asked for", 1 + c.imbalance)
                  : fmt::format(", at most {:.3f} was asked for", 1 + c.imbalance));
  const std::vector<double> values(c.weights.begin(), c.weights.end());
  return text + bars(values, limit, [&](std::size_t part) {
           return fmt::format("part {}: {} {}", part, format_count(c.weights[part]), c.name);
         });
}

/// The matrix of edges, in which many parts share a cell.
std::string matrix(const BuildReport& report) {
  const std::size_t parts = report.record.parts.size();
  if (report.edges_between.size() != parts * parts)
    return fmt::format("<p class=\"note\">Not drawn for {} parts.</p>\n", parts);
  constexpr std::size_t kMostCells = 64;
  const std::size_t per_cell = (parts + kMostCells - 1) / kMostCells,
                    cells = (parts + per_cell - 1) / per_cell;
  std::vector<Count> sums(cells * cells);
  for (std::size_t to = 0; to < parts; ++to)
    for (std::size_t from = 0; from < parts; ++from)
      sums[to / per_cell * cells + from / per_cell] += report.edges_between[to * parts + from];
  const double most = std::log1p(static_cast<double>(*std::ranges::max_element(sums)));
  const double size = kMatrix / static_cast<double>(cells);
  std::string contents;
  for (std::size_t to = 0; to < cells; ++to)
    for (std::size_t from = 0; from < cells; ++from) {
      const Count edges = sums[to * cells + from];
      if (edges == 0) continue;
      const double depth = most == 0 ? 0 : std::log1p(static_cast<double>(edges)) / most;
      contents += rect(
          static_cast<double>(from) * size, static_cast<double>(to) * size, size, size,
          fmt::format("class=\"{}\" fill-opacity=\"{:.3f}\"", to == from ? "good" : "bad", depth * depth),
          per_cell == 1 ? fmt::format("from part {} to part {}: {} edges", from, to, format_count(edges))
                        : fmt::format("from parts {} to parts {}: {} edges", from * per_cell, to * per_cell,
                                      format_count(edges)));
    }
  return "<p class=\"note\">Columns are the parts that edges come from, rows those that they go to; the "
         "darker, the "
         "more. In a good partition the diagonal is dark and the rest pale.</p>\n" +
         svg(kMatrix, kMatrix, contents);
}

Count nodes_of(const graph::PartitionRecord& record, std::size_t part) {
  const auto offsets = record.manifest.book.offsets();
  return offsets[part + 1] - offsets[part];
}

/// Which part has the most halo nodes, in a sentence.
std::string largest_halo(const graph::PartitionRecord& record) {
  const auto largest = std::ranges::max_element(record.parts, {}, &graph::PartRecord::halo_nodes);
  if (largest->halo_nodes == 0) return "<p>No edge comes from another part.</p>\n";
  const auto part = static_cast<std::size_t>(largest - record.parts.begin());
  const auto own = static_cast<double>(std::max<Count>(1, nodes_of(record, part)));
  return fmt::format(
      "<p>Part {} has the most: {} nodes of other parts beside its own, {:.2f} times as many.</p>\n", part,
      format_count(largest->halo_nodes), static_cast<double>(largest->halo_nodes) / own);
}

std::string halo(const graph::PartitionRecord& record) {
  std::vector<double> values;
  for (const graph::PartRecord& part : record.parts) values.push_back(static_cast<double>(part.halo_nodes));
  return largest_halo(record) + bars(values, 0, [&](std::size_t part) {
           return fmt::format("part {}: {} halo nodes, {} of {} edges come from other parts", part,
                              format_count(record.parts[part].halo_nodes),
                              format_count(record.parts[part].cut_edges),
                              format_count(record.parts[part].num_edges));
         });
}

/// The numbers behind the drawings.
std::string part_table(const graph::PartitionRecord& record) {
  constexpr std::size_t kMost = 1024;
  if (record.parts.size() > kMost)
    return fmt::format("<p class=\"note\">strata-partition info lists all {} parts.</p>\n",
                       format_count(std::ssize(record.parts)));
  std::vector<std::vector<std::string>> rows{
      {"part", "nodes", "edges", "edges from other parts", "halo nodes"}};
  for (std::size_t p = 0; p < record.parts.size(); ++p) {
    const graph::PartRecord& part = record.parts[p];
    rows.push_back({std::to_string(p), format_count(nodes_of(record, p)), format_count(part.num_edges),
                    format_count(part.cut_edges), format_count(part.halo_nodes)});
  }
  return "<details><summary>Every part in numbers</summary>\n" + table(rows) + "</details>\n";
}

std::string degrees(const std::vector<Count>& histogram) {
  const auto range = [](std::size_t i) {
    return i == 0 ? std::string("0") : i == 1 ? "1" : fmt::format("{} to {}", 1ll << (i - 1), (1ll << i) - 1);
  };
  std::vector<double> heights;
  for (const Count nodes : histogram) heights.push_back(std::log10(1 + static_cast<double>(nodes)));
  std::vector<std::vector<std::string>> rows{{"in-neighbors", "nodes"}};
  for (std::size_t i = 0; i < histogram.size(); ++i) rows.push_back({range(i), format_count(histogram[i])});
  return "<p class=\"note\">A bar per power of two, of logarithmic height.</p>\n" +
         bars(heights, 0,
              [&](std::size_t i) {
                return fmt::format("{} nodes with {} in-neighbors", format_count(histogram[i]), range(i));
              }) +
         table(rows);
}

std::string phases(const std::vector<Phase>& phases) {
  std::vector<std::vector<std::string>> rows{{"phase", "time", "CPU time", "peak memory so far"}};
  double total = 0;
  for (const Phase& phase : phases) {
    rows.push_back({phase.name, format_seconds(phase.seconds), format_seconds(phase.cpu_seconds),
                    format_bytes(phase.peak_bytes)});
    total += phase.seconds;
  }
  constexpr double kRow = 22, kNames = 80;
  std::string contents;
  double before = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const double scale = total > 0 ? (kWidth - kNames) / total : 0, y = static_cast<double>(i) * kRow;
    contents += fmt::format("<text x=\"4\" y=\"{:.1f}\">{}</text>", y + 15, escaped(phases[i].name));
    contents +=
        rect(kNames + before * scale, y + 3, std::max(phases[i].seconds * scale, 1.0), kRow - 6,
             "class=\"good\"", fmt::format("{}: {}", phases[i].name, format_seconds(phases[i].seconds)));
    before += phases[i].seconds;
  }
  return svg(kWidth, static_cast<double>(phases.size()) * kRow, contents) + table(rows);
}

std::string section(const char* title, const std::string& contents) {
  return fmt::format("<h2>{}</h2>\n{}", title, contents);
}

}  // namespace

std::string report_html(const BuildReport& report) {
  const graph::PartitionRecord& record = report.record;
  const std::string title =
      fmt::format("{} in {}", escaped(record.manifest.name), counted(std::ssize(record.parts), "part"));
  std::string balances;
  for (const graph::ConstraintRecord& constraint : record.constraints) balances += balance(constraint);
  return fmt::format(
             "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
             "<meta charset=\"utf-8\"/>\n"
             "<meta name=\"viewport\" "
             "content=\"width=device-width\"/>\n<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n"
             "<h1>{0}</h1>\n",
             title, kStyle) +
         verdict(report) + summary(report) + section("Balance", balances) +
         section("Edges between parts", matrix(report)) +
         section("Halo nodes per part", halo(record) + part_table(record)) +
         section("Degrees", degrees(report.degree_histogram)) + section("Phases", phases(report.phases)) +
         "</body>\n</html>\n";
}

}  // namespace strata::partition
