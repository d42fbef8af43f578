// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "cli/build_report.hpp"
#include "cli/interrupt.hpp"
#include "strata/graph/dataset_source.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/format.hpp"
#include "strata/util/log.hpp"
#include "strata/util/progress.hpp"
#include "strata/util/utf8.hpp"

namespace strata::partition {
namespace {

constexpr const char* kProgram = "strata-partition";

/// Options as given on the command line.
struct Arguments {
  graph::Source input;
  std::string input_text, method = "auto", quality = "default", features = "f32", log_level = "info",
                          direction = "auto";
  std::string duplicates = "remove", self_loops = "keep";
  std::vector<std::string> balance{"nodes"};
  std::filesystem::path directory;
  bool json = false;
  graph::ReadOptions read;
  BuildOptions build;
};

void add_common(CLI::App& command, Arguments& args) {
  command.add_option("--threads", args.build.num_threads, "Threads; 0: one a core")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096))
      ->group("Running");
  command.add_option("--log-level", args.log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str()
      ->group("Running");
}

void add_input(CLI::App& command, Arguments& args) {
  constexpr const char* kGroup = "Input";
  command
      .add_option("--input", args.input_text,
                  fmt::format("The graph: {}", fmt::join(graph::dataset_forms(), ", ")))
      ->type_name("SPEC")
      ->required()
      ->group(kGroup);
  command
      .add_option("--direction", args.direction,
                  "auto (as the dataset says), directed or undirected (both directions of each edge)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "directed", "undirected"}))
      ->type_name("NAME")
      ->group(kGroup);
  command.add_option("--duplicates", args.duplicates, "Repeated edges: keep or remove")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "remove"}))
      ->type_name("NAME")
      ->group(kGroup);
  command.add_option("--self-loops", args.self_loops, "Edges from a node to itself: keep or remove")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "remove"}))
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_flag("--normalize-features", args.read.normalize_features,
                "Scale each feature row to a sum of absolute values of 1")
      ->group(kGroup);
  command
      .add_flag("--allow-outside-paths", args.read.allow_outside_paths,
                "Trust a metadata.yaml whose paths are absolute or have '..'")
      ->group(kGroup);
  command
      .add_option(
          "--max-classes", args.build.max_classes,
          "Refuse labels or metadata that make more classes than this: a model has one output per class")
      ->capture_default_str()
      ->check(CLI::Range(Count{1}, Count{1} << 31))
      ->type_name("N")
      ->group(kGroup);
}

void add_partitioning(CLI::App& command, Arguments& args) {
  constexpr const char* kGroup = "Partitioning";
  command.add_option("--parts", args.build.assign.num_parts, "Number of parts")
      ->type_name("N")
      ->required()
      ->check(CLI::Range(1, 100000))
      ->group(kGroup);
  command
      .add_option(
          "--method", args.method,
          "auto or multilevel (few cut edges, for graphs of any size), metis (METIS k-way), random, "
          "range (of ids), or file:PATH (one part id per line). On small graphs auto tries METIS, too")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option("--quality", args.quality,
                  "default, or strong: auto and multilevel take several times as long for a lower cut")
      ->capture_default_str()
      ->check(CLI::IsMember({"default", "strong"}))
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option("--balance", args.balance,
                  "What auto, multilevel and metis balance: nodes, edges (in-edges), train (training nodes); "
                  "a list with commas")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::IsMember({"nodes", "edges", "train"}))
      ->type_name("NAMES")
      ->group(kGroup);
  command
      .add_option("--imbalance", args.build.assign.imbalance,
                  "By how much a part may exceed the mean of each")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 10.0))
      ->type_name("SHARE")
      ->group(kGroup);
  command.add_option("--seed", args.build.assign.seed, "Of all methods but range and file")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
}

void add_output(CLI::App& command, Arguments& args) {
  constexpr const char* kGroup = "Output";
  command.add_option("--output", args.build.output, "Directory to make; published in one step at the end")
      ->type_name("DIR")
      ->required()
      ->group(kGroup);
  command.add_option("--features", args.features, "Type to store features in: f32, f16 or bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->type_name("TYPE")
      ->group(kGroup);
  command.add_flag("--force", args.build.force, "Replace an existing partition directory")->group(kGroup);
}

void add_inspection(CLI::App& command, Arguments& args) {
  command.add_option("DIR", args.directory, "A directory that strata-partition build wrote")->required();
  command.add_flag("--json", args.json, "Print JSON instead of text");
  add_common(command, args);
}

void set_method(Arguments& args) {
  const std::map<std::string, PartitionMethod> methods{{"auto", PartitionMethod::automatic},
                                                       {"multilevel", PartitionMethod::multilevel},
                                                       {"metis", PartitionMethod::metis},
                                                       {"random", PartitionMethod::random},
                                                       {"range", PartitionMethod::range}};
  AssignOptions& assign = args.build.assign;
  if (args.method.starts_with("file:") && args.method.size() > 5) {
    assign.method = PartitionMethod::file;
    assign.file = args.method.substr(5);
    return;
  }
  const auto found = methods.find(args.method);
  if (found == methods.end()) {
    const std::string near =
        closest(args.method, {"auto", "multilevel", "metis", "random", "range", "file:PATH"});
    throw InputError(fmt::format("--method {} is unknown", args.method),
                     near.empty() ? "Give auto, multilevel, metis, random, range or file:PATH."
                                  : "Did you mean " + near + "?");
  }
  assign.method = found->second;
}

void set_balance(Arguments& args) {
  const std::map<std::string, Constraint> constraints{
      {"nodes", Constraint::nodes}, {"edges", Constraint::edges}, {"train", Constraint::train}};
  args.build.assign.balance.clear();
  for (const std::string& name : args.balance) {
    auto& balance = args.build.assign.balance;
    if (std::find(balance.begin(), balance.end(), constraints.at(name)) != balance.end()) {
      throw InputError(fmt::format("--balance names {} twice", name), "Name each once.");
    }
    balance.push_back(constraints.at(name));
  }
}

/// Converts options that the parser read as text to their types, and refuses contradictions.
void finish_build_options(Arguments& args, const CLI::App& command) {
  using Direction = graph::ReadOptions::Direction;
  set_method(args);
  set_balance(args);
  const PartitionMethod method = args.build.assign.method;
  if (!looks_for_few_cut_edges(method) &&
      (command.count("--balance") > 0 || command.count("--imbalance") > 0)) {
    throw InputError("--balance and --imbalance are for --method auto, multilevel and metis only",
                     "Leave them out, or use one of these.");
  }
  if (method != PartitionMethod::automatic && method != PartitionMethod::multilevel &&
      command.count("--quality") > 0) {
    throw InputError("--quality is for --method auto and multilevel only",
                     "Leave it out, or use one of these.");
  }
  args.build.assign.quality = args.quality == "strong" ? CutQuality::strong : CutQuality::standard;
  const auto policy = [](const std::string& name) {
    return name == "keep" ? graph::EdgePolicy::keep : graph::EdgePolicy::remove;
  };
  args.read.duplicates = policy(args.duplicates);
  args.read.self_loops = policy(args.self_loops);
  args.read.direction = args.direction == "auto"       ? Direction::automatic
                        : args.direction == "directed" ? Direction::directed
                                                       : Direction::undirected;
  args.read.num_threads = args.build.num_threads;
  args.build.feature_dtype = parse_dtype(args.features);
  args.input = graph::Source(args.input_text);
  args.build.input = args.input.text();
}

int run_build(Arguments& args, const CLI::App& command) {
  finish_build_options(args, command);
  check_output(args.build);
  StopFlag stop;
  const InterruptGuard guard{stop};
  PhaseClock clock;
  try {
    announce("reading " + args.input.text());
    graph::Graph graph = graph::read_graph(args.input, args.read);
    const Phase reading = clock.end("read");
    BuildReport report = build(std::move(graph), args.build, stop);
    report.phases.insert(report.phases.begin(), reading);
    fmt::print("{}", report_text(report, args.build.output));
  } catch (const Stopped& stopped) {
    fmt::print(stderr, "{}", format_error(kProgram, stopped));
    return 128 + guard.signal();
  }
  return static_cast<int>(ExitCode::ok);
}

int run_info(const Arguments& args) {
  const graph::PartitionRecord record = graph::read_partition_record(args.directory);
  fmt::print("{}", args.json ? info_json(record) : info_text(record));
  return static_cast<int>(ExitCode::ok);
}

int run_verify(const Arguments& args) {
  const std::vector<Problem> problems = verify(args.directory, args.build.num_threads);
  fmt::print("{}", args.json ? verify_json(args.directory, problems) : verify_text(args.directory, problems));
  return static_cast<int>(problems.empty() ? ExitCode::ok : ExitCode::failure);
}

/// The options or subcommands that the user may have meant.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> known{"build", "info", "verify", "--help", "--version"};
  for (const CLI::App* command : app.get_subcommands()) {
    known = {};
    for (const CLI::Option* option : command->get_options()) known.push_back(option->get_name());
  }
  return known;
}

/// Reports unknown words before missing ones, because they are often the same mistake.
[[noreturn]] void refuse_command_line(const CLI::ParseError& error, const CLI::App& app) {
  const auto used = app.get_subcommands();
  const std::string help =
      fmt::format("See {}{} --help.", kProgram, used.empty() ? "" : " " + used.front()->get_name());
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) throw InputError(error.what(), help);
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const std::string near = closest(word, known_words(app));
  throw InputError(fmt::format("unknown argument {}", word),
                   near.empty() ? help : fmt::format("Did you mean {}? {}", near, help));
}

int dispatch(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    require_utf8(argv[i], fmt::format("argument {}", i));  // the manifest is JSON
  CLI::App app{"Cuts a graph into parts for strata-train. Needs neither a GPU nor MPI."};
  Arguments args;
  app.name(kProgram);
  app.set_version_flag("--version", STRATA_VERSION);
  app.require_subcommand(1);
  CLI::App* build_command =
      app.add_subcommand("build", "Read a graph, partition it and write one HDF5 file a part");
  CLI::App* info_command =
      app.add_subcommand("info", "Tell sizes, edge cut and balance of a partition directory");
  CLI::App* verify_command = app.add_subcommand(
      "verify",
      "Check every byte and invariant of a partition directory. Takes 25 bytes of memory per "
      "node and, per thread, 4 MiB, an eighth of a byte per node and a 4096th of a part");
  add_input(*build_command, args);
  add_partitioning(*build_command, args);
  add_output(*build_command, args);
  add_common(*build_command, args);
  add_inspection(*info_command, args);
  add_inspection(*verify_command, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help, version
    refuse_command_line(error, app);
  }
  init_log(kProgram, enum_value<LogLevel>(args.log_level, "--log-level"));
  if (build_command->parsed()) return run_build(args, *build_command);
  return info_command->parsed() ? run_info(args) : run_verify(args);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", format_error(kProgram, error));
    return static_cast<int>(exit_code(error));
  }
}

}  // namespace strata::partition
