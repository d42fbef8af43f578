// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/same_config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "strata/train/config.hpp"
#include "strata/util/error.hpp"

namespace strata::train {
namespace {

using nlohmann::json;

/// The options of a config, with their values.
json values_of(const TrainConfig& config, bool (*wanted)(const options::Option&)) {
  TrainSettings settings = settings_of(config);
  const options::OptionTable table = train_options(settings);
  json values = json::object();
  for (const options::Option& option : table.options())
    if (wanted(option)) values[option.name] = json::parse(option.literal());
  if (values.contains("model")) values["model"] = model_name(config);
  return values;
}

/// The name of a generated graph. Each host may have a copy of its own of a graph on disk, so such names may
/// differ.
std::string generated_graph(const graph::Source& graph) {
  return graph.is_generated() ? graph.text() : "a directory";
}

json shared_options(const TrainConfig& config) {
  json values = values_of(config, [](const options::Option& option) { return !option.of_host; });
  values["graph"] = generated_graph(config.graph);
  values["trace"] = config.trace.empty() ? "none" : "a file";
  values["init-from"] = config.init_from.empty() ? "none" : "a run";
  values["resume"] = config.resume;
  return values;
}

}  // namespace

std::string differences(const std::string& mine, const std::string& others) {
  const json values = json::parse(mine), known = json::parse(others);
  const auto shown = [](const json& value) {
    return value.is_string() ? value.get<std::string>() : value.is_null() ? "nothing" : value.dump();
  };
  std::string text;
  for (const auto& [name, value] : values.items()) {
    const json other = known.value(name, json());
    if (value == other) continue;
    text +=
        fmt::format("{}--{} {} instead of {}", text.empty() ? "" : ", ", name, shown(value), shown(other));
  }
  return text;
}

void require_same_config(const TrainConfig& config, const comm::Communicator& communicator) {
  const std::string mine = shared_options(config).dump();
  std::string first = mine;
  communicator.broadcast(first, 0);
  communicator.together([&] {
    const std::string different = differences(mine, first);
    if (different.empty()) return;
    throw InputError(fmt::format("this rank was given other options than rank 0: {}", different),
                     "Give all ranks the same options, and all hosts the same configuration file.");
  });
}

std::string resume_signature(const TrainConfig& config, int num_ranks) {
  json values = values_of(config, [](const options::Option& option) { return option.is_fixed; });
  values["global-batch-size"] =
      config.global_batch_size > 0 ? config.global_batch_size : config.batch_size * num_ranks;
  if (config.lr_schedule.kind == ScheduleKind::cosine) values["epochs"] = config.epochs;  // it ends at 0
  return values.dump();
}

}  // namespace strata::train
