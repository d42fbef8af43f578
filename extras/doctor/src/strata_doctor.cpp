// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/cli/config_file.hpp"
#include "strata/cli/failure.hpp"
#include "strata/comm/launcher.hpp"
#include "strata/doctor/doctor.hpp"
#include "strata/doctor/last_resort.hpp"
#include "strata/graph/source.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/options.hpp"
#include "strata/util/system.hpp"

namespace {

using namespace strata;

/// The options of a command line, or a text to print.
struct Words {
  bool quick = false;
  std::string json, graph, config, output;
  std::string text;
};

Words parse(const std::vector<std::string>& given) {
  constexpr const char* kAbout =
      "strata-doctor [OPTION...]     looks for what would make a job fail or crawl\n\n"
      "  mpirun -n 16 strata-doctor --graph parts --config run.toml\n\n"
      "Start it as strata-train will be started: with the same hosts, ranks and\n"
      "settings, under mpirun or srun. Exit code: 0 if all is well, 1 for warnings, 2\n"
      "if a run would fail. docs/clusters.md explains what it checks.\n\n";
  Words words;
  options::OptionTable table;
  table.add("quick", words.quick, "Measure for at most 10 s instead of 60 s");
  table.add("json", words.json, "File for the findings and the measurements").like("FILE");
  table.add("graph", words.graph, "Parts that all hosts should see alike and read fast").like("PARTS");
  table.add("config", words.config, "Configuration file of a run: what would it need?").like("FILE");
  table.add("output", words.output, "Folder of the run, for its space (default: this folder)").like("DIR");
  if (std::ranges::find(given, "--version") != given.end())
    words.text = "strata-doctor " + build_version() + "\n";
  else
    words.text = read_words("strata-doctor", kAbout, table, given);
  return words;
}

/// Refuses graphs without part files: there is nothing to check, nor to plan for.
void refuse_without_parts(const std::string& graph) {
  if (graph.empty()) return;
  const graph::Source source(graph);
  if (source.synthetic() == nullptr && source.dataset() == nullptr) return;
  throw InputError(
      fmt::format("--graph {}: it has no part files to check", graph),
      "Build them (strata-partition build --input GRAPH --output PARTS) and name that folder, or "
      "leave --graph out.");
}

void complete_request(const Words& words, const comm::World& world, doctor::Request& request) {
  refuse_without_parts(words.graph);
  request.graph = words.graph;
  request.output = words.output;
  if (!words.config.empty()) {
    cli::ConfigFile file = cli::read_config_file(words.config);
    train::TrainConfig config = std::move(file.settings.config);
    if (!words.graph.empty()) {
      config.graph = words.graph;
      file.given_at.erase("graph");
    }
    if (config.graph.empty())
      throw InputError(fmt::format("--config {} names no graph to plan for", words.config),
                       "Give --graph PARTS, too.");
    cli::with_places(file.given_at, [&] { train::validate(config); });
    if (request.output.empty()) request.output = config.output;
    if (request.graph.empty() && !config.graph.is_generated()) request.graph = config.graph.text();
    request.plan = std::move(config);
  }
  if (world.rank() == 0 && !words.json.empty() && !can_write_file(words.json))
    throw InputError(fmt::format("--json {} cannot be written", words.json),
                     "Name a file in an existing folder that you may write to.");
}

int run(int argc, char** argv, const Words& words) {
  const auto started = std::chrono::steady_clock::now();
  const doctor::Request early{.quick = words.quick, .json = words.json};
  doctor::LastResort last_resort(early.limit());
  const comm::World world(&argc, &argv);
  last_resort.mpi_has_started();
  std::optional<comm::OrderlyEnd> orderly_end;
  try {
    const auto complete = [&](doctor::Request& request) {
      orderly_end.emplace(world.communicator());
      world.communicator().together([&] { complete_request(words, world, request); });
    };
    const int code = doctor::examine(early, complete, world, started);
    if (code != 0 && world.rank() == 0) cli::explain_mpirun();
    return code;
  } catch (const std::exception& error) {
    return cli::fail({.program = "strata-doctor", .error = error, .code = ExitCode::bad_input}, world,
                     orderly_end ? &*orderly_end : nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  doctor::prepare_environment();
  int code = static_cast<int>(ExitCode::bad_input);
  try {
    const Words words = parse({argv + 1, argv + argc});
    if (!words.text.empty()) {
      if (comm::rank_of_launcher() == 0) fmt::print("{}", words.text);
      return 0;
    }
    code = run(argc, argv, words);
  } catch (const std::exception& error) {
    if (comm::rank_of_launcher() == 0) fmt::print(stderr, "{}\n", format_error("strata-doctor", error));
  }
  std::fflush(nullptr);
  std::_Exit(code);  // a thread may still wait for a file system
}
