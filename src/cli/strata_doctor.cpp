// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "config_file.hpp"
#include "strata/comm/launcher_rank.hpp"
#include "strata/doctor/doctor.hpp"
#include "strata/graph/source.hpp"
#include "strata/util/build_version.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace {

using namespace strata;

constexpr int kBadInput = static_cast<int>(ExitCode::bad_input);

/// What a command line asks for, or a text to print.
struct Words {
  bool quick = false;
  std::string json, graph, config, output;
  std::string text;
};

Words parse(int argc, char** argv) {
  Words words;
  CLI::App app(
      "Looks for what makes jobs fail or crawl, before they do.\n\n"
      "  mpirun -n 16 strata-doctor --graph parts --config run.toml\n\n"
      "Start it as strata-train will be started: with the same hosts, ranks and settings, under mpirun or "
      "srun.\n"
      "Exit code: 0 all is well, 1 warnings, 2 a run would fail. docs/doctor.md explains what it looks "
      "at.\n");
  app.add_flag("--quick", words.quick, "10 s at most, with shorter measurements; otherwise 60 s");
  app.add_option("--json", words.json, "File for the findings and for what was measured")->type_name("FILE");
  app.add_option("--graph", words.graph, "Part folder: is it the same on all hosts, and how fast is it read")
      ->type_name("PARTS");
  app.add_option("--config", words.config, "Configuration of strata-train: also tell what the run would need")
      ->type_name("FILE");
  app.add_option("--output", words.output,
                 "Folder of the run: is there room (default: the working directory)")
      ->type_name("DIR");
  app.set_version_flag("--version", "strata-doctor " + build_version());
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    words.text = app.help();
  } catch (const CLI::CallForVersion&) {
    words.text = app.version() + "\n";
  } catch (const CLI::ParseError& error) {
    throw InputError(error.what(), "strata-doctor --help lists the options.");
  }
  return words;
}

/// What has no part folder cannot be looked at, nor planned for.
void refuse_without_parts(const std::string& graph) {
  if (graph.empty()) return;
  const graph::Source source(graph);
  if (source.synthetic() == nullptr && source.dataset() == nullptr) return;
  throw InputError(
      fmt::format("--graph {}: it has no parts, whose files are looked at", graph),
      "Build them (strata-partition build --input GRAPH --output PARTS) and name that folder, or "
      "leave --graph out.");
}

doctor::Request request_of(const Words& words, const comm::World& world) {
  refuse_without_parts(words.graph);
  doctor::Request request{
      .quick = words.quick, .json = words.json, .graph = words.graph, .output = words.output};
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
                     "Name a file in a folder that exists.");
  return request;
}

/// A last resort, because before the ranks know each other nothing can tell who is missing.
void out_of_time(int) {
  constexpr std::string_view kText =
      "strata-doctor: no end in its time. A rank does not start or does not answer, or MPI finds no network "
      "between the "
      "hosts.\n  See docs/troubleshooting.md#a-rank-that-does-not-answer\n";
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(kBadInput);
  _exit(kBadInput);
}

void end_after(std::chrono::seconds limit) {
  struct sigaction action {};
  action.sa_handler = out_of_time;
  sigaction(SIGALRM, &action, nullptr);
  alarm(static_cast<unsigned>(limit.count()));
}

int run(int argc, char** argv, const Words& words) {
  const auto started = std::chrono::steady_clock::now();
  const std::chrono::seconds limit = doctor::Request{.quick = words.quick}.limit();
  constexpr std::chrono::seconds kAfterFirst{1};  // so that one rank speaks
  end_after(comm::rank_of_launcher() == 0 ? limit : limit + kAfterFirst);
  comm::World world(&argc, &argv);
  std::optional<doctor::Request> request;
  try {
    request = request_of(words, world);
    return doctor::examine(*request, world, started);
  } catch (const std::exception& error) {
    if (world.rank() != 0) std::this_thread::sleep_for(kAfterFirst);
    fmt::print(
        stderr, "{}\n",
        format_error(fmt::format("strata-doctor: rank {} (host {})", world.rank(), world.host()), error));
    std::fflush(stderr);
    world.abort(kBadInput);
  }
}

}  // namespace

int main(int argc, char** argv) {
  doctor::prepare_environment();
  int code = kBadInput;
  try {
    const Words words = parse(argc, argv);
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
