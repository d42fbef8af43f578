// SPDX-License-Identifier: Apache-2.0
#include "planning/measured_run.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::train {
namespace {

using nlohmann::json;

/// The records of the last run in the file, and its fastest epoch.
struct Records {
  std::optional<json> run, epoch;
};

Records last_run(const std::string& text) {
  Records found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line, nullptr, false);
    if (!record.is_object()) continue;  // a line that was cut off
    const std::string type = record.value("type", "");
    if (type == "run") found = {.run = record, .epoch = {}};
    if (type != "epoch" || record.value("steps", Count{0}) <= 0) continue;
    if (!found.epoch || record.at("seconds") < found.epoch->at("seconds")) found.epoch = record;
  }
  return found;
}

}  // namespace

MeasuredRun read_measured_run(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "metrics.jsonl";
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw InputError(fmt::format("--cluster measured={}: {}", folder.string(), what), remedy);
  };
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    refuse("there is no metrics.jsonl", "Name the folder of a run, such as runs/last.");
  try {
    const auto [run, epoch] = last_run(read_file(file));
    if (!run || !epoch) refuse("no epoch of it was finished", "Let it train for an epoch.");
    if (run->at("machines").get<int>() != 1)
      refuse("it ran on several machines", "Name a run on one machine, best with --pipeline off.");
    const auto steps = epoch->at("steps").get<double>();
    const auto per_step = [&](const char* name) { return epoch->at(name).get<double>() / steps; };
    return {.sample_seconds = per_step("sample_seconds"),
            .gather_seconds = per_step("gather_seconds"),
            .compute_seconds = per_step("compute_seconds"),
            .seeds_per_rank = epoch->at("seeds").get<double>() / steps / run->at("ranks").get<double>(),
            .hidden = run->at("hidden").get<Count>(),
            .model = run->at("model").get<std::string>(),
            .fanouts = run->at("fanouts").dump(),
            .one_by_one = run->value("batches_in_flight", 0) == 1};
  } catch (const json::exception& e) {
    refuse(fmt::format("metrics.jsonl lacks a field ({})", e.what()),
           "Name a run of this version of Strata.");
  }
  return {};
}

}  // namespace strata::train
