// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planning/plan.hpp"
#include "strata/util/text.hpp"

namespace strata::train {
namespace {

using nlohmann::json;

std::string stratum_name(tensor::Stratum stratum) {
  return std::string(stratum == tensor::Stratum::replicated ? "every GPU" : enum_name(stratum));
}

std::string bytes(double count) { return format_bytes(static_cast<std::int64_t>(count)); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string bit_rate(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  return bits < 1e9 ? fmt::format("{:.1f} Mbit/s", 1e-6 * bits) : fmt::format("{:.1f} Gbit/s", 1e-9 * bits);
}

std::string cluster_text(const StepPlan& plan) {
  const plan::Cluster& c = plan.cluster;
  const plan::Link link = plan.inputs.link;
  std::string text = fmt::format("cluster {} of {}{}", counted(c.machines, "machine"),
                                 counted(c.ranks_per_machine(), c.has_gpus() ? "GPU" : "rank"),
                                 c.has_gpus() ? "" : " on CPUs");
  if (c.machines > 1)
    text += fmt::format("\n        {} per rank, latency {}", bit_rate(link.bytes_per_second),
                        format_seconds(link.latency_seconds));
  return text + "\n";
}

constexpr int kColumns = 69;  // the doctor prints it beside the names of checks
constexpr const char* kSmaller = "lower --batch-size, --fanouts or --hidden";

std::string host_remedy(const StepPlan& plan) {
  const std::int64_t memory = plan.cluster.host_memory;
  if (plan.memory.graph_bytes() > memory) return "use more machines";
  return plan.memory.training_bytes > memory ? fmt::format("{}, or start fewer ranks", kSmaller)
                                             : fmt::format("use more machines, or {}", kSmaller);
}

std::string host_text(const StepPlan& plan) {
  const plan::MemoryPlan& m = plan.memory;
  std::string text = fmt::format("host    {} per machine, of which a run takes {}\n",
                                 format_bytes(plan.cluster.host_memory), format_bytes(m.host_bytes()));
  text += fmt::format("        structure{} {}, feature rows {}\n", m.replicated ? " of the whole graph" : "",
                      format_bytes(m.structure_bytes), format_bytes(m.feature_bytes));
  if (m.copies_bytes > 0)
    text += fmt::format("        copies of small types {}\n", format_bytes(m.copies_bytes));
  if (plan.cluster.machines > 1)
    text += fmt::format("        cache of other machines' nodes {}\n", format_bytes(m.cache_bytes));
  if (m.training_bytes > 0)
    text += fmt::format("        model, batches and libraries of {} {}\n",
                        counted(plan.cluster.ranks, "rank"), format_bytes(m.training_bytes));
  if (!m.fits_host) text += fmt::format("        TOO MUCH: {}\n", host_remedy(plan));
  return text;
}

std::string memory_text(const TrainConfig& config, const StepPlan& plan) {
  const plan::MemoryPlan& m = plan.memory;
  std::string text;
  if (plan.cluster.has_gpus()) {
    text +=
        fmt::format("GPU     {} each: graph {}, training up to {}\n", format_bytes(plan.cluster.gpu_memory),
                    format_bytes(m.gpu_graph_bytes), format_bytes(m.gpu_training_bytes));
    if (m.gpu_budget_bytes == 0 && m.fits_gpu)
      text += "        nothing is left to the graph: give --gpu-memory\n";
    if (!m.fits_gpu)
      text += fmt::format("        TOO MUCH: {}{}\n",
                          config.gpu_memory_bytes > 0 ? "lower --gpu-memory, or " : "", kSmaller);
  }
  text += host_text(plan);
  if (!plan.cluster.has_gpus()) return text;
  Table table({"rows of the largest machine", "where", "rows", "accesses"});
  for (const plan::TensorPlan& tensor : m.placement.tensors)
    for (const plan::StratumEstimate& stratum : tensor.strata)
      table.row(
          {tensor.name, stratum_name(stratum.stratum), format_count(stratum.rows), percent(stratum.share)});
  return text + table.str();
}

std::string batch_text(const StepPlan& plan) {
  const BatchProfile& p = plan.profile;
  Table table(
      {fmt::format("a batch of a rank (mean of {})", p.batches), "nodes", "remote", "cached", "sent"});
  for (std::size_t hop = 0; hop < p.hops.size(); ++hop) {
    const BatchProfile::Hop& h = p.hops[hop];
    const bool exchanged = hop < plan.inputs.hops.size();
    table.row({fmt::format("neighbors, hop {}", hop + 1), format_count(static_cast<Count>(h.nodes)),
               percent(h.remote_nodes / std::max(1.0, h.nodes)),
               exchanged ? percent(plan.memory.cached_lists) : "-",
               exchanged ? bytes(plan.inputs.hops[hop].bytes) : "-"});
  }
  table.row({"feature rows", format_count(static_cast<Count>(p.inputs)),
             percent(p.remote_inputs / std::max(1.0, p.inputs)), percent(plan.memory.cached_rows),
             bytes(plan.inputs.rows.bytes)});
  return table.str();
}

std::string step_text(const StepPlan& plan) {
  const plan::StepEstimate& e = plan.estimate;
  Table table({"a step", "seconds"});
  table.row({"sampling", format_seconds(e.sample)});
  table.row({"gathering", format_seconds(e.gather)});
  table.row({"training", format_seconds(e.train)});
  table.row({"  of it, sum of gradients", format_seconds(e.sum)});
  table.row({"bytes on the link", format_seconds(e.wire)});
  table.row({"a batch per batch in flight", format_seconds(e.in_flight)});
  return table.str() + fmt::format(
                           "step    {}, limited by {}; {} per epoch ({})\n"
                           "        {} of one machine's speed per rank\n"
                           "        arithmetic {}\n",
                           format_seconds(e.step), plan::name_of(e.limit),
                           format_seconds(e.step * static_cast<double>(plan.profile.steps_per_epoch)),
                           counted(plan.profile.steps_per_epoch, "step"), percent(plan.efficiency()),
                           plan.basis);
}

}  // namespace

std::string plan_text(const TrainConfig& config, const StepPlan& plan) {
  return fmt::format("graph   {}\nmodel   {} {}, hidden {}, {} seeds per step\n", config.graph.text(),
                     planned_model(config), fmt::join(config.fanouts, ","), config.hidden,
                     format_count(plan.global_batch)) +
         cluster_text(plan) + memory_text(config, plan) + batch_text(plan) + step_text(plan);
}

json plan_record(const TrainConfig& config, const StepPlan& plan) {
  json hops = json::array();
  for (std::size_t hop = 0; hop < plan.profile.hops.size(); ++hop) {
    const BatchProfile::Hop& h = plan.profile.hops[hop];
    hops.push_back({{"nodes", h.nodes},
                    {"remote", h.remote_nodes},
                    {"bytes", hop < plan.inputs.hops.size() ? plan.inputs.hops[hop].bytes : 0.0}});
  }
  json strata = json::array();
  for (const plan::TensorPlan& tensor : plan.memory.placement.tensors)
    for (const plan::StratumEstimate& stratum : tensor.strata)
      strata.push_back({{"tensor", tensor.name},
                        {"stratum", stratum_name(stratum.stratum)},
                        {"rows", stratum.rows},
                        {"share", stratum.share}});
  const plan::StepEstimate& e = plan.estimate;
  return {{"graph", config.graph.text()},
          {"machines", plan.cluster.machines},
          {"ranks", plan.cluster.all_ranks()},
          {"hops", std::move(hops)},
          {"rows",
           {{"nodes", plan.profile.inputs},
            {"remote", plan.profile.remote_inputs},
            {"bytes", plan.inputs.rows.bytes}}},
          {"replicated", plan.memory.replicated},
          {"cached_rows", plan.memory.cached_rows},
          {"cached_lists", plan.memory.cached_lists},
          {"host_bytes", plan.memory.host_bytes()},
          {"host_copies_bytes", plan.memory.copies_bytes},
          {"host_training_bytes", plan.memory.training_bytes},
          {"gpu_bytes", plan.memory.gpu_graph_bytes + plan.memory.gpu_training_bytes},
          {"fits", plan.memory.fits_host && plan.memory.fits_gpu},
          {"placement", std::move(strata)},
          {"steps_per_epoch", plan.profile.steps_per_epoch},
          {"sample_seconds", e.sample},
          {"gather_seconds", e.gather},
          {"train_seconds", e.train},
          {"sum_seconds", e.sum},
          {"wire_seconds", e.wire},
          {"step_seconds", e.step},
          {"batches_in_flight", plan.inputs.batches_in_flight},
          {"limit", plan::name_of(e.limit)},
          {"alone_seconds", plan.alone.step},
          {"efficiency", plan.efficiency()},
          {"basis", plan.basis}};
}

}  // namespace strata::train
