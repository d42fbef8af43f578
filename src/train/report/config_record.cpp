// SPDX-License-Identifier: Apache-2.0
#include "report/config_record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "strata/train/config.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::train {
namespace {

using options::Option;

/// Text as lines of a comment, which a control character would end.
std::string as_comment(const std::string& text) {
  std::string line = "# " + text;
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line + "\n";
}

std::string source_of(const Option& option, const TrainConfig& config) {
  const auto& given = config.provenance.given_by;
  if (const auto found = given.find(option.name); found != given.end()) return found->second;
  TrainSettings defaults;
  const options::OptionTable table = train_options(defaults);
  return table.find(option.name)->literal() == option.literal() ? "default" : "the program";
}

/// Whether the model is the program's own, and so no value that --model takes.
bool is_model_of_program(const Option& option, const TrainConfig& config) {
  return option.name == "model" && !config.own_model.empty();
}

}  // namespace

RunOrigin run_origin(const std::vector<std::string>& hosts, const std::string& parts_by) {
  RunOrigin origin{.version = build_version(),
                   .libraries = library_versions(),
                   .parts_by = parts_by,
                   .hosts = {},
                   .num_ranks = static_cast<int>(hosts.size()),
                   .folder = {},
                   .started = fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::localtime(std::time(nullptr)))};
  for (const std::string& host : hosts)
    if (std::ranges::find(origin.hosts, host) == origin.hosts.end()) origin.hosts.push_back(host);
  std::error_code failed;
  origin.folder = std::filesystem::current_path(failed).string();
  return origin;
}

std::string config_record(const TrainConfig& config, const RunOrigin& origin) {
  std::string text =
      as_comment(fmt::format("Strata {}; {}", origin.version, fmt::join(origin.libraries, ", "))) +
      as_comment(fmt::format("{}, {} on {}", origin.started, counted(origin.num_ranks, "rank"),
                             fmt::join(origin.hosts, ", "))) +
      as_comment("in " + origin.folder);
  if (!origin.parts_by.empty()) text += as_comment("parts by " + origin.parts_by);
  if (!config.provenance.command_line.empty()) text += as_comment(config.provenance.command_line);
  TrainSettings settings = settings_of(config);
  const options::OptionTable options = train_options(settings);
  for (const std::string& table : options.tables()) {
    text += fmt::format("\n[{}]\n", table);
    for (const Option& option : options.options()) {
      if (option.table != table) continue;
      const bool owned = is_model_of_program(option, config);
      text += fmt::format("{}{} = {}  {}", option.of_one_run || owned ? "# " : "", option.name,
                          owned ? nlohmann::json(config.own_model).dump() : option.literal(),
                          as_comment(owned ? "the program" : source_of(option, config)));
    }
  }
  return text;
}

nlohmann::json options_record(const TrainConfig& config) {
  TrainSettings settings = settings_of(config);
  const options::OptionTable table = train_options(settings);
  nlohmann::json record = nlohmann::json::object();
  for (const Option& option : table.options())
    record[option.name] = is_model_of_program(option, config) ? nlohmann::json(config.own_model)
                                                              : nlohmann::json::parse(option.literal());
  return record;
}

}  // namespace strata::train
