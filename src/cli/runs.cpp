// SPDX-License-Identifier: Apache-2.0
#include "runs.hpp"

#include <fmt/format.h>

#include <cmath>

#include "strata/train/trainer.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::cli {
namespace {

int code_of(bool stopped) { return static_cast<int>(stopped ? ExitCode::stopped : ExitCode::ok); }

/// "0.8130 ± 0.0065": mean and standard deviation; "-" if there is a score that is none.
std::string mean_and_spread(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (!std::isfinite(mean)) return "-";
  return fmt::format("{:.4f} ± {:.4f}", mean, count > 1 ? std::sqrt(squares / (count - 1)) : 0.0);
}

std::string table_of(const std::vector<train::TrainResult>& results, const std::vector<std::uint64_t>& seeds,
                     std::string_view metric) {
  Table table({"seed", "best epoch", fmt::format("validation {}", metric), "test"});
  std::vector<double> valid, test;
  for (std::size_t i = 0; i < results.size(); ++i) {
    valid.push_back(results[i].valid.of(metric));
    test.push_back(results[i].test.of(metric));
    table.row({std::to_string(seeds[i]), std::to_string(results[i].best_epoch),
               fmt::format("{:.4f}", valid.back()), fmt::format("{:.4f}", test.back())});
  }
  return table.str() + fmt::format("mean and standard deviation: validation {}, test {}\n",
                                   mean_and_spread(valid), mean_and_spread(test));
}

/// Trains once per seed, in one folder each; what was finished before a stop stays.
int train_seeds(const ParsedOptions& options, const comm::World& world, train::StopListener& stop,
                const train::ModelFactory& make_model) {
  std::vector<train::TrainResult> results;
  train::TrainConfig config = *options.config;
  const std::string parent = config.output.empty() ? "runs/seeds" : config.output;
  for (const std::uint64_t seed : options.seeds) {
    config.seed = seed;
    config.output = parent + "/seed-" + std::to_string(seed);
    results.push_back(train::train(config, world, stop, make_model));
    if (results.back().stopped) return code_of(true);
  }
  if (world.rank() == 0) print(table_of(results, options.seeds, enum_name(train::chosen_metric(config))));
  return code_of(false);
}

int use_model(const ParsedOptions& options, const comm::World& world, train::StopListener& stop,
              const train::ModelFactory& make_model) {
  const train::InferenceResult result =
      train::infer(*options.config, *options.inference, world, stop, make_model);
  if (world.rank() == 0 && !result.stopped) {
    if (result.scored) print(train::scores_table(options.config->graph.text(), result.valid, result.test));
    if (!options.inference->logits.empty())
      print(fmt::format("{}  {}\n", result.scored ? "logits" : "predictions", options.inference->logits));
  }
  return code_of(result.stopped);
}

}  // namespace

int execute(const ParsedOptions& options, const comm::World& world, train::StopListener& stop,
            const train::ModelFactory& make_model) {
  const train::TrainConfig& config = *options.config;
  init_log(world.size() > 1 ? fmt::format("rank {}", world.rank()) : "", config.log_level);
  choose_progress(config.progress);
  if (options.plan) {
    const train::RunPlan plan = train::plan_run(config, options.plan->cluster, world);
    print(options.plan->json ? plan.record : plan.tables);
    return code_of(false);
  }
  if (options.inference) return use_model(options, world, stop, make_model);
  if (!options.seeds.empty()) return train_seeds(options, world, stop, make_model);
  return code_of(train::train(config, world, stop, make_model).stopped);
}

}  // namespace strata::cli
