// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "strata/util/text.hpp"
#include "tuning/device_mix.hpp"

namespace strata::train {
namespace {

using nlohmann::json;

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json scores_json(const Scores& scores) {
  json record{{"nodes", scores.nodes}, {"loss", number(scores.loss)}};
  for (const Score& score : scores.values) record[score.name] = number(score.value);
  return record;
}

std::string ranks_table(const comm::Topology& topology) {
  Table table({"machine", "host", "ranks", "devices"});
  for (std::size_t m = 0; m < topology.machines.size(); ++m) {
    std::string devices;
    for (const int r : topology.machines[m]) {
      const std::string device = topology.ranks[at(r)].device.str();
      if (devices.find(device) != std::string::npos) continue;
      if (!devices.empty()) devices += ' ';
      devices += device;
    }
    const int first = topology.machines[m].front();
    table.row({std::to_string(m), topology.ranks[at(first)].host, std::to_string(topology.machines[m].size()),
               devices});
  }
  return table.str();
}

std::size_t num_ranks(const RunFacts& facts) { return facts.topology.ranks.size(); }

/// The way of rows between machines; empty on one machine.
std::string row_exchange_name(const RunFacts& facts) {
  return facts.row_exchange ? std::string(enum_name(*facts.row_exchange)) : std::string();
}

std::string plan_table(const std::vector<plan::PlanRow>& plan) {
  Table table({"tensor (machine 0)", "stratum", "rows", "size", "accesses", "GB/s"});
  for (const auto& row : plan) {
    const auto& expected = row.expected;
    table.row({row.tensor, row.stratum, format_count(row.rows), format_bytes(row.bytes),
               expected ? fmt::format("{:.1f} %", 100 * expected->share) : "-",
               expected ? fmt::format("{:.1f}", expected->bytes_per_second / 1e9) : "-"});
  }
  return table.str();
}

}  // namespace

std::string banner(const RunFacts& facts) {
  const auto& manifest = facts.manifest;
  const TrainConfig& config = facts.config;
  const bool as_stored = config.feature_format == plan::FeatureFormat::stored;
  std::string text = fmt::format("graph   {}: {} nodes, {} edges, {} features ({}), {}\n", manifest.name,
                                 format_count(manifest.book.num_nodes()), format_count(manifest.num_edges),
                                 manifest.feature_cols,
                                 as_stored ? manifest.feature_type() : enum_name(config.feature_format),
                                 manifest.targets.empty() ? fmt::format("{} classes", manifest.num_classes)
                                                          : counted(std::ssize(manifest.targets), "target"));
  if (config.task == TaskKind::node)
    text += fmt::format("        {} / {} / {} training, validation, test nodes\n",
                        format_count(manifest.num_train), format_count(manifest.num_valid),
                        format_count(manifest.num_test));
  text += fmt::format(
      "model   {}: fanouts {}, hidden {}, {} parameters\n"
      "        {}, lr {}, {} per step, {} per epoch\n",
      model_name(config), fmt::join(config.fanouts, ","), config.hidden, format_count(facts.num_parameters),
      enum_name(config.optimizer), config.learning_rate, counted(facts.global_batch, "seed"),
      counted(facts.steps_per_epoch, "step"));
  text += fmt::format(
      "ranks   {} on {}, {} per rank{}{}\n", counted(static_cast<Count>(num_ranks(facts)), "rank"),
      counted(facts.topology.num_machines(), facts.topology.virtual_machines ? "virtual machine" : "machine"),
      counted(facts.cores, "core"),
      num_ranks(facts) > 1 ? fmt::format(", gradients over {}", facts.reducer) : "",
      facts.topology.num_machines() > 1
          ? fmt::format(",\n        feature rows over {}", row_exchange_name(facts))
          : "");
  text += fmt::format("folder  {}\n", config.output);
  text += ranks_table(facts.topology) + plan_table(facts.plan);
  if (facts.presampled_batches > 0)
    text += fmt::format("planned from the accesses of {} batches\n", format_count(facts.presampled_batches));
  return text;
}

std::string fanouts_note(const std::vector<int>& fanouts) {
  const auto none = std::ranges::find(fanouts, 0);
  if (none == fanouts.end()) return {};
  return fmt::format(
      "--fanouts {}: hop {} takes no neighbors, so its layer sees each node only by itself; -1 takes all",
      fmt::join(fanouts, ","), none - fanouts.begin() + 1);
}

namespace {

/// A link's record; null if nothing was measured.
json link_json(const comm::LinkFacts& link) {
  if (link.bytes_per_second <= 0) return nullptr;
  return {{"round_seconds", link.round_seconds}, {"bytes_per_second", link.bytes_per_second}};
}

json plan_json(const std::vector<plan::PlanRow>& plan) {
  json rows = json::array();
  for (const auto& row : plan) {
    const auto& expected = row.expected;
    rows.push_back({{"tensor", row.tensor},
                    {"stratum", row.stratum},
                    {"rows", row.rows},
                    {"bytes", row.bytes},
                    {"share", expected ? number(expected->share) : json(nullptr)},
                    {"bytes_per_second", expected ? number(expected->bytes_per_second) : json(nullptr)}});
  }
  return rows;
}

json hottest_json(const std::vector<plan::HottestRows>& hottest) {
  json rows = json::array();
  for (const plan::HottestRows& h : hottest) rows.push_back({{"share", h.share}, {"rows", h.rows}});
  return rows;
}

}  // namespace

json run_record(const RunFacts& facts) {
  const auto& manifest = facts.manifest;
  return {{"type", "run"},
          {"version", 1},
          {"graph", facts.config.graph.text()},
          {"nodes", manifest.book.num_nodes()},
          {"edges", manifest.num_edges},
          {"parts", manifest.book.num_parts()},
          {"model", model_name(facts.config)},
          {"fanouts", facts.config.fanouts},
          {"sampler", enum_name(facts.config.sampling_method())},
          {"replace", facts.config.replace},
          {"labor_dependent", facts.config.is_layer_dependent()},
          {"inductive", facts.config.inductive},
          {"hidden", facts.config.hidden},
          {"global_batch_size", facts.global_batch},
          {"steps_per_epoch", facts.steps_per_epoch},
          {"feature_cols", manifest.feature_cols},
          {"classes", manifest.num_classes},
          {"targets", manifest.targets.size()},
          {"unlabelled",
           {{"train", facts.missing.train}, {"valid", facts.missing.valid}, {"test", facts.missing.test}}},
          {"batch_nodes", facts.batch_sizes.nodes},
          {"batch_edges", facts.batch_sizes.edges},
          {"plan", plan_json(facts.plan)},
          {"hottest_rows", hottest_json(facts.hottest_rows)},
          {"presampled_batches", facts.presampled_batches},
          {"batches_in_flight", facts.batches_in_flight},
          {"parameters", facts.num_parameters},
          {"link", link_json(facts.link)},
          {"gpu_link", link_json(facts.gpu_link)},
          {"seed", facts.config.seed},
          {"ranks", num_ranks(facts)},
          {"machines", facts.topology.num_machines()},
          {"device", device_name(facts.topology)},
          {"sm_split", facts.config.sm_split},
          {"reducer", facts.reducer},
          {"row_exchange", row_exchange_name(facts)},
          {"strata", facts.origin.version},
          {"libraries", facts.origin.libraries},
          {"parts_by", facts.origin.parts_by},
          {"hosts", facts.origin.hosts},
          {"started", facts.origin.started},
          {"command", facts.config.provenance.command_line},
          {"options", options_record(facts.config)}};
}

json first_step_record(double seconds, bool early) {
  return {{"type", "first_step"}, {"seconds", seconds}, {"start_early", early}};
}

json arrival_record(const store::FeatureArrival::Report& report) {
  return {{"type", "arrival"},
          {"late_rows", report.late_rows},
          {"required_rows", report.required_rows},
          {"required_seconds", report.required_seconds},
          {"background_seconds", report.background_seconds}};
}

/// The record leaves a level out that GPUs do not read, if nothing was read from it.
json gathered_record(const EpochReport& e) {
  json record;
  for (const auto& [stratum, name] : enum_names<tensor::Stratum>) {
    const std::int64_t bytes = e.gathered_bytes[stratum];
    if (bytes > 0 || static_cast<int>(stratum) < tensor::kGpuStrata) record[std::string(name)] = bytes;
  }
  return record;
}

json step_record(int epoch, Count step_in_epoch, double loss, double train_accuracy) {
  return {{"type", "step"},
          {"epoch", epoch},
          {"step", step_in_epoch},
          {"loss", number(loss)},
          {"train_accuracy", number(train_accuracy)}};
}

json epoch_record(const EpochReport& e) {
  return {{"type", "epoch"},
          {"epoch", e.epoch},
          {"steps", e.steps},
          {"seeds", e.seeds},
          {"skipped_updates", e.skipped_updates},
          {"unpadded_batches", e.unpadded_batches},
          {"input_rows", e.input_rows},
          {"loss", number(e.loss)},
          {"train_accuracy", number(e.train_accuracy)},
          {"seconds", e.seconds},
          {"seeds_per_second", e.seeds_per_second()},
          {"sample_seconds", e.stages.sample},
          {"gather_seconds", e.stages.gather},
          {"wait_seconds", e.stages.wait},
          {"train_seconds", e.train_seconds()},
          {"compute_seconds", e.compute_seconds()},
          {"sum_seconds", e.sum_seconds},
          {"gathered_bytes", gathered_record(e)},
          {"peak_host_bytes", e.peak_host_bytes}};
}

json sm_split_record(const SmSplitResult& result) {
  json times = json::array();
  for (const auto& time : result.times)
    times.push_back({{"split", name_of(time.shares)}, {"step_seconds", time.seconds}});
  return {{"type", "sm_split"}, {"choice", name_of(result.choice)}, {"measured", std::move(times)}};
}

json evaluation_record(int epoch, const Evaluation& evaluation) {
  return {{"type", "evaluation"},
          {"epoch", epoch},
          {"seconds", evaluation.seconds},
          {"valid", scores_json(evaluation.valid)},
          {"test", scores_json(evaluation.test)}};
}

json details_record(int epoch, const std::string& details) {
  json record = json::parse(details);
  record["epoch"] = epoch;
  return record;
}

json exchange_record(const ExchangeTotals& t) {
  const auto seconds = [](const ExchangeTotals::Seconds& s) {
    return json{{"seconds", s.all}, {"waited_seconds", s.waited}};
  };
  json hops = json::array();
  for (const ExchangeTotals::Hop& hop : t.hops)
    hops.push_back(
        {{"nodes", hop.frontier}, {"remote", hop.remote}, {"cached", hop.cached}, {"bytes", hop.bytes}});
  json neighbors = seconds(t.neighbors), features = seconds(t.features);
  neighbors["hops"] = std::move(hops);
  features.update(
      {{"rows", t.rows}, {"remote", t.remote_rows}, {"cached", t.cached_rows}, {"bytes", t.row_bytes}});
  return {{"type", "exchange"}, {"neighbors", std::move(neighbors)}, {"features", std::move(features)}};
}

json final_record(const FinalReport& report) {
  const TrainResult& r = report.result;
  return {{"type", "final"},
          {"stopped", r.stopped},
          {"epochs", r.epochs_done},
          {"best_epoch", r.best_epoch},
          {"valid", scores_json(r.valid)},
          {"test", scores_json(r.test)},
          {"seeds_per_second", r.seeds_per_second},
          {"peak_host_bytes", report.peak_host_bytes},
          {"peak_device_bytes", report.peak_device_bytes}};
}

namespace {

/// "; rows: 1.5 GiB replicated, 8.0 GiB host, 40.1 GB/s".
std::string gathered_text(const EpochReport& e) {
  std::string text;
  std::int64_t sum = 0;
  for (const auto& [stratum, name] : enum_names<tensor::Stratum>) {
    const std::int64_t bytes = e.gathered_bytes[stratum];
    if (bytes > 0) text += fmt::format("{} {}, ", format_bytes(bytes), name);
    sum += bytes;
  }
  constexpr double kGiga = 1e9;
  if (sum == 0) return text;
  return fmt::format("; rows: {}{:.1f} GB/s", text, static_cast<double>(sum) / e.seconds / kGiga);
}

/// "987", "49.0k", "1.39M".
std::string short_count(double count) {
  constexpr double kThousand = 1e3, kMillion = 1e6;
  if (count >= kMillion) return fmt::format("{:.2f}M", count / kMillion);
  if (count >= kThousand) return fmt::format("{:.1f}k", count / kThousand);
  return fmt::format("{:.0f}", count);
}

}  // namespace

std::string stages_line(const EpochReport& e) {
  return fmt::format(
      "  epoch {}: train accuracy {}; sample {}, gather {}; compute {}, wait for batches {}, sum over "
      "ranks {}{}",
      e.epoch, score_text(e.train_accuracy), format_seconds(e.stages.sample), format_seconds(e.stages.gather),
      format_seconds(e.compute_seconds()), format_seconds(e.stages.wait), format_seconds(e.sum_seconds),
      gathered_text(e));
}

std::string bar_words(const BarProgress& progress) {
  if (progress.seeds == 0) return {};
  const double loss = progress.loss_sum / progress.seeds;
  const std::string words = fmt::format("loss {:.{}f}", loss, loss < 10 ? 4 : 3);
  if (progress.best_valid == nullptr) return words;
  return words + "  best " + score_text(progress.best_valid->of(progress.metric));
}

std::string epoch_line(const EpochSummary& summary) {
  const std::string epochs = std::to_string(summary.epochs);
  std::string line = fmt::format("epoch {:>{}}/{}", summary.epoch, epochs.size(), epochs);
  if (summary.trained != nullptr)
    line += fmt::format("  loss {:.{}f}", summary.trained->loss, summary.trained->loss < 10 ? 4 : 3);
  if (summary.evaluation != nullptr) {
    line += fmt::format("  valid {}  test {}", score_text(summary.evaluation->valid.of(summary.metric)),
                        score_text(summary.evaluation->test.of(summary.metric)));
  }
  if (summary.trained != nullptr) {
    line += fmt::format("  {:>7}  {} seeds/s", format_seconds(summary.trained->seconds),
                        short_count(summary.trained->seeds_per_second()));
  }
  return line + (summary.is_best ? " *" : "");
}

std::string exchange_table(const ExchangeTotals& t) {
  const auto share = [](Count part, Count whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole))
                     : std::string("-");
  };
  Table table({"asked of other machines", "nodes", "remote", "of them cached", "sent"});
  const auto row = [&](const std::string& what, const ExchangeTotals::Hop& hop) {
    table.row({what, format_count(hop.frontier), share(hop.remote, hop.frontier),
               share(hop.cached, hop.remote), format_bytes(hop.bytes)});
  };
  for (std::size_t hop = 0; hop < t.hops.size(); ++hop)
    row(fmt::format("neighbors, hop {}", hop + 1), t.hops[hop]);
  row("feature rows", {t.rows, t.remote_rows, t.cached_rows, t.row_bytes});
  const auto hidden = [](const ExchangeTotals::Seconds& s) {
    return fmt::format("{}, {} of it hidden", format_seconds(s.all), format_seconds(s.all - s.waited));
  };
  return table.str() + fmt::format("exchange of a rank within its stage: neighbors {}; feature rows {}\n",
                                   hidden(t.neighbors), hidden(t.features));
}

std::string final_table(const FinalReport& report) {
  const TrainResult& r = report.result;
  const std::string on_gpu =
      report.peak_device_bytes > 0
          ? fmt::format(", of libtorch on its GPU {}", format_bytes(report.peak_device_bytes))
          : std::string();
  const std::string speed =
      r.seeds_per_second > 0
          ? fmt::format("{} seeds/s, ", format_count(static_cast<Count>(r.seeds_per_second)))
          : std::string();
  return scores_table(fmt::format("best epoch {}", r.best_epoch), r.valid, r.test) +
         fmt::format("{}peak host memory of rank 0 {}{}\n", speed, format_bytes(report.peak_host_bytes),
                     on_gpu);
}

std::string nothing_left(const TrainConfig& config, Count epochs_done) {
  const std::string last = fmt::format("nothing is left to train: the run has done {} of {}", epochs_done,
                                       counted(config.epochs, "epoch"));
  return epochs_done < config.epochs
             ? fmt::format("{} and stopped by --patience {}; a larger one goes on", last, config.patience)
             : last + "; more --epochs go on";
}

std::string closing_text(const TrainConfig& config, const TrainResult& result) {
  const char* const program = config.own_model.empty() ? "strata-train" : "this program:";
  const bool in_memory = config.graph.is_in_memory();
  if (result.stopped) {
    const std::string next = in_memory ? fmt::format("strata.train(data, resume=\"{}\")", config.output)
                                       : fmt::format("{} --resume {}", program, config.output);
    return fmt::format("stopped in epoch {}; continue with\n  {}\n", result.epochs_done + 1, next);
  }
  const std::string next = in_memory
                               ? fmt::format("strata.predict(\"{}\", data)", config.output)
                               : fmt::format("{} predict {} --graph {} \\\n          --output logits.npy",
                                             program, config.output, config.graph.text());
  return fmt::format("model   {}/model.safetensors, of epoch {}\nnext    {}\n", config.output,
                     result.best_epoch, next);
}

}  // namespace strata::train
