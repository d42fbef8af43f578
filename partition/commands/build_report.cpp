// SPDX-License-Identifier: Apache-2.0
#include "commands/build_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "strata/partition/inspect.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

std::string cleaning_table(const graph::CleaningReport& cleaning) {
  Table table({"edges read", format_count(cleaning.edges_read)});
  table.row({"self-loops met / removed", fmt::format("{} / {}", format_count(cleaning.self_loops),
                                                     format_count(cleaning.self_loops_removed))});
  table.row({"duplicates met / removed", fmt::format("{} / {}", format_count(cleaning.duplicates),
                                                     format_count(cleaning.duplicates_removed))});
  table.row({"reverse directions added", format_count(cleaning.reverse_added)});
  return table.str();
}

std::string phase_table(const std::vector<Phase>& phases) {
  Table table({"phase", "time", "peak memory so far"});
  double total = 0;
  for (const Phase& phase : phases) {
    table.row({phase.name, format_seconds(phase.seconds), format_bytes(phase.peak_bytes)});
    total += phase.seconds;
  }
  table.row({"all", format_seconds(total), ""});
  return table.str();
}

}  // namespace

std::string report_json(const BuildReport& report, const std::filesystem::path& output) {
  using Json = nlohmann::ordered_json;
  const graph::CleaningReport& cleaning = report.record.build.cleaning;
  Json phases = Json::array();
  for (const Phase& phase : report.phases)
    phases.push_back({{"name", phase.name},
                      {"seconds", phase.seconds},
                      {"cpu_seconds", phase.cpu_seconds},
                      {"peak_bytes", phase.peak_bytes}});
  Json json{{"path", output.string()}};
  json.update(Json::parse(info_json(report.record)));
  json["listed"] = {{"edges", cleaning.edges_read},
                    {"self_loops", cleaning.self_loops},
                    {"self_loops_removed", cleaning.self_loops_removed},
                    {"duplicates", cleaning.duplicates},
                    {"duplicates_removed", cleaning.duplicates_removed},
                    {"reverse_added", cleaning.reverse_added}};
  json["phases"] = std::move(phases);
  if (!report.edges_between.empty()) json["edges_between"] = report.edges_between;
  if (!report.degree_histogram.empty()) json["degrees"] = report.degree_histogram;
  return json.dump(2) + "\n";
}

std::string report_text(const BuildReport& report, const std::filesystem::path& output) {
  const Summary sum = summarize(report.record);
  std::string balances;
  for (const graph::ConstraintRecord& c : report.record.constraints) {
    balances += fmt::format("{}{} {:.3f}", balances.empty() ? "" : ", ", c.name, c.balance());
  }
  return fmt::format(
      "{}\n{}\nedge cut {} of {} edges, halo nodes {}, replication factor {:.3f}\nlargest part / mean: "
      "{}\n{}: {}, {}\n",
      cleaning_table(report.record.build.cleaning), phase_table(report.phases), format_count(sum.cut_edges),
      format_count(report.record.manifest.num_edges), format_count(sum.halo_nodes), sum.replication, balances,
      output.string(), counted(std::ssize(report.record.parts), "part"), format_bytes(sum.bytes));
}

}  // namespace strata::partition
