// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "cli/build_report.hpp"
#include "cli/input_options.hpp"
#include "cli/interrupt.hpp"
#include "strata/graph/dataset_source.hpp"
#include "strata/graph/input_stamp.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/convert.hpp"
#include "strata/partition/describe.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/partition/memory_plan.hpp"
#include "strata/partition/report.hpp"
#include "strata/util/files.hpp"
#include "strata/util/format.hpp"
#include "strata/util/log.hpp"
#include "strata/util/memory.hpp"
#include "strata/util/progress.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/utf8.hpp"
#include "version.hpp"

namespace strata::partition {
namespace {

constexpr const char* kProgram = "strata-partition";

/// Options as given on the command line.
struct Arguments {
  InputOptions input;
  std::string method = "auto", quality = "default", log_level = "info";
  std::vector<std::string> balance{"nodes"};
  std::filesystem::path directory, report;
  std::string target, memory;
  bool json = false;
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

void add_memory(CLI::App& command, Arguments& args) {
  command
      .add_option(
          "--memory", args.memory,
          "Most memory that may be resident, such as 16GiB; default: what is free. Where the edges would "
          "take more, they are cut from temporary files beside the output")
      ->type_name("BYTES")
      ->group("Running");
}

void add_class_limit(CLI::App& command, Arguments& args) {
  command
      .add_option(
          "--max-classes", args.build.max_classes,
          "Refuse labels or metadata that make more classes than this: a model has one output per class")
      ->capture_default_str()
      ->check(CLI::Range(Count{1}, Count{1} << 31))
      ->type_name("N")
      ->group("Input");
}

/// The method of repartition also knows the parts that are there.
constexpr const char* kMethods =
    "auto or multilevel (few cut edges, for graphs of any size), metis (METIS k-way), random, range (of "
    "ids), "
    "or file:PATH (one part id per line). On small graphs auto tries METIS, too";
constexpr const char* kMoreMethods = ". merge joins whole parts, split cuts each part into as many";

void add_partitioning(CLI::App& command, Arguments& args, const std::string& methods) {
  constexpr const char* kGroup = "Partitioning";
  command.add_option("--parts", args.build.assign.num_parts, "Number of parts")
      ->type_name("N")
      ->required()
      ->check(CLI::Range(1, 100000))
      ->group(kGroup);
  command.add_option("--method", args.method, methods)
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
  command
      .add_option("--report", args.report,
                  "Also write a page of HTML that shows the partition: balance, edges between parts, halo "
                  "nodes, degrees, time and memory")
      ->type_name("FILE")
      ->group(kGroup);
  command.add_flag("--force", args.build.force, "Replace an existing partition directory")->group(kGroup);
}

void add_json(CLI::App& command, Arguments& args) {
  command.add_flag("--json", args.json, "Print JSON instead of text");
  add_common(command, args);
}

void add_inspection(CLI::App& command, Arguments& args) {
  command.add_option("DIR", args.directory, "A directory that strata-partition build wrote")->required();
  add_json(command, args);
}

/// `repartition`: whether there are parts to merge and split.
void set_method(Arguments& args, bool repartition) {
  std::map<std::string, PartitionMethod> methods{{"auto", PartitionMethod::automatic},
                                                 {"multilevel", PartitionMethod::multilevel},
                                                 {"metis", PartitionMethod::metis},
                                                 {"random", PartitionMethod::random},
                                                 {"range", PartitionMethod::range}};
  if (repartition) {
    methods.emplace("merge", PartitionMethod::merge);
    methods.emplace("split", PartitionMethod::split);
  }
  AssignOptions& assign = args.build.assign;
  if (args.method.starts_with("file:") && args.method.size() > 5) {
    assign.method = PartitionMethod::file;
    assign.file = args.method.substr(5);
    return;
  }
  const auto found = methods.find(args.method);
  if (found == methods.end()) {
    std::vector<std::string> known{"file:PATH"};
    for (const auto& [name, method] : methods) known.push_back(name);
    const std::string near = closest(args.method, known);
    throw InputError(
        fmt::format("--method {} is unknown", args.method),
        near.empty() ? fmt::format("Give one of {}.", fmt::join(known, ", ")) : "Did you mean " + near + "?");
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
void finish_assign_options(Arguments& args, const CLI::App& command, bool repartition) {
  set_method(args, repartition);
  set_balance(args);
  const PartitionMethod method = args.build.assign.method;
  if (!looks_for_few_cut_edges(method) &&
      (command.count("--balance") > 0 || command.count("--imbalance") > 0)) {
    throw InputError("--balance and --imbalance are for --method auto, multilevel and metis only",
                     "Leave them out, or use one of these.");
  }
  if ((!looks_for_few_cut_edges(method) || method == PartitionMethod::metis) &&
      command.count("--quality") > 0) {
    throw InputError("--quality is for --method auto and multilevel only",
                     "Leave it out, or use one of these.");
  }
  args.build.assign.quality = args.quality == "strong" ? CutQuality::strong : CutQuality::standard;
}

/// 0 if none was given.
std::int64_t memory_limit(const Arguments& args) {
  if (args.memory.empty()) return 0;
  constexpr std::int64_t kLeast = std::int64_t{64} << 20;
  const std::int64_t limit = parse_bytes(args.memory);
  if (limit < kLeast)
    throw InputError(fmt::format("--memory {}: less than the program itself takes", args.memory),
                     "Give 64MiB or more, such as --memory 16GiB.");
  return limit;
}

/// Whether edges that the input lists once are taken in both directions, as far as one can tell before it is
/// read.
bool may_add_directions(const InputOptions& input) {
  using Format = graph::DatasetSource::Format;
  using Direction = graph::ReadOptions::Direction;
  const graph::DatasetSource* const dataset = input.source.dataset();
  const bool may_say_so =
      dataset != nullptr && (dataset->format == Format::ogb || dataset->format == Format::edge_list ||
                             dataset->format == Format::matrix_market);
  return input.read.direction == Direction::undirected ||
         (input.read.direction == Direction::automatic && may_say_so);
}

void check_report(const Arguments& args) {
  if (args.report.empty() || can_write_file(args.report)) return;
  throw InputError(fmt::format("--report {}: cannot be written", args.report.string()),
                   "Choose a file in a folder that exists and can be written.");
}

/// Reads what args.input names, partitions it and tells about it.
int build_from_input(Arguments& args) {
  check_output(args.build);
  check_report(args);
  const graph::InputStamp stamp(args.input.source, args.input.files);
  args.build.before_publishing = [&stamp] { stamp.require_unchanged(); };
  args.build.detailed = !args.report.empty();
  StopFlag stop;
  const InterruptGuard guard{stop};
  PhaseClock clock;
  try {
    announce("reading " + args.input.spec);
    const graph::InputSize size = graph::measure_input(args.input.source, args.input.files);
    const std::int64_t limit = memory_limit(args);
    const MemoryPlan plan = plan_memory(
        size, args.build.assign, {.limit_bytes = limit, .both_directions = may_add_directions(args.input)});
    BuildReport report;
    Phase reading;
    if (plan.on_disk) {
      spdlog::info("the edges go to temporary files in {}: in memory they would take more than {}",
                   folder_of(args.build.output).string(), format_bytes(plan.limit_bytes));
      ScratchStore scratch{folder_of(args.build.output), plan.room_bytes};
      graph::StoredGraph graph =
          graph::read_stored_graph(args.input.source, args.input.read, args.input.files, scratch);
      scratch.set_room(
          room_for_nodes(graph.graph.num_nodes(), size.bytes_in_memory, args.build.assign, plan.limit_bytes));
      return_freed_memory();
      reading = clock.end("read");
      report = build(std::move(graph), args.build, scratch, stop);
    } else {
      graph::Graph graph = args.input.read_graph();
      reading = clock.end("read");
      report = build(std::move(graph), args.build, stop);
    }
    report.phases.insert(report.phases.begin(), reading);
    fmt::print("{}", report_text(report, args.build.output));
    if (!args.report.empty()) write_file_atomically(args.report, report_html(report));
  } catch (const Stopped& stopped) {
    fmt::print(stderr, "{}", format_error(kProgram, stopped));
    return 128 + guard.signal();
  }
  return static_cast<int>(ExitCode::ok);
}

int run_build(Arguments& args, const CLI::App& command) {
  finish_assign_options(args, command, false);
  args.input.finish(command, args.build.num_threads);
  args.build.feature_dtype = args.input.feature_dtype;
  args.build.input = args.input.source.text();
  return build_from_input(args);
}

/// Partitions what parts hold anew: the same graph, with features as they are stored.
int run_repartition(Arguments& args, const CLI::App& command) {
  finish_assign_options(args, command, true);
  const graph::PartitionRecord record = graph::read_partition_record(args.directory);
  args.input.spec = args.directory.string();
  args.input.duplicates = args.input.self_loops = "keep";
  args.input.finish(command, args.build.num_threads);
  args.build.feature_dtype = record.manifest.feature_dtype;
  args.build.max_classes = std::max(args.build.max_classes, record.manifest.num_classes);
  args.build.input = record.build.input;
  AssignOptions& assign = args.build.assign;
  if (assign.method == PartitionMethod::merge || assign.method == PartitionMethod::split) {
    assign.given = std::make_shared<const GivenParts>(read_given_parts(args.directory));
    check_regrouping(assign);
  }
  return build_from_input(args);
}

/// Describes a graph that is not partitioned.
int run_summary(Arguments& args) {
  announce("reading " + args.input.spec);
  const graph::Graph graph = args.input.read_graph();
  ThreadPool pool(args.build.num_threads);
  announce("describing the graph");
  const GraphSummary summary = summarize(graph, pool);
  fmt::print("{}", args.json ? summary_json(summary) : summary_text(summary));
  return static_cast<int>(ExitCode::ok);
}

int run_info(Arguments& args, const CLI::App& command) {
  args.input.finish(command, args.build.num_threads);
  const auto parts = args.input.source.parts();
  const auto* const directory = parts ? std::get_if<std::filesystem::path>(&*parts) : nullptr;
  if (directory == nullptr) return run_summary(args);
  for (const char* const name : {"--features", "--labels", "--split", "--normalize-features"})
    if (command.count(name) > 0)
      throw InputError(fmt::format("{} has no effect on {}, which has parts", name, args.input.spec),
                       "Leave it out.");
  const graph::PartitionRecord record = graph::read_partition_record(*directory);
  fmt::print("{}", args.json ? info_json(record) : info_text(record));
  return static_cast<int>(ExitCode::ok);
}

int run_convert(Arguments& args, const CLI::App& command) {
  args.input.finish(command, args.build.num_threads);
  const graph::Source target(args.target);
  const graph::DatasetSource* const folder = target.dataset();
  if (folder == nullptr || folder->format != graph::DatasetSource::Format::npy || folder->nodes)
    throw InputError(fmt::format("{} cannot be written", args.target),
                     "Write npy:DIR, a folder of NumPy arrays.");
  StopFlag stop;
  const InterruptGuard guard{stop};
  try {
    announce("reading " + args.input.spec);
    const graph::Graph graph = args.input.read_graph();
    announce("writing " + folder->place.string());
    write_npy_folder(graph, folder->place, stop);
    fmt::print("{}: {} nodes, {} edges\n", folder->place.string(), format_count(graph.num_nodes()),
               format_count(graph.structure.num_edges()));
  } catch (const Stopped& stopped) {
    fmt::print(stderr, "{}", format_error(kProgram, stopped));
    return 128 + guard.signal();
  }
  return static_cast<int>(ExitCode::ok);
}

int run_verify(const Arguments& args) {
  const std::vector<Problem> problems = verify(args.directory, args.build.num_threads);
  fmt::print("{}", args.json ? verify_json(args.directory, problems) : verify_text(args.directory, problems));
  return static_cast<int>(problems.empty() ? ExitCode::ok : ExitCode::failure);
}

/// The options or subcommands that the user may have meant.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> known{"build", "convert", "info", "repartition", "verify", "--help", "--version"};
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
  if (used.empty())
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      if (command->get_option_no_throw(word) != nullptr && word != "--help")
        throw InputError(
            fmt::format("unknown argument {}", word),
            fmt::format("Name the command first: {} {} {} ...", kProgram, command->get_name(), word));
  const bool takes_input = !used.empty() && used.front()->get_option_no_throw("--input") != nullptr;
  if (takes_input && !word.starts_with("-") && used.front()->count("--input") == 0)
    throw InputError(fmt::format("unexpected argument {}", unknown.front()),
                     fmt::format("Did you mean --input {}?", unknown.front()));
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
  app.set_version_flag("--version", fmt::format("{} {}", kProgram, program_version()));
  app.require_subcommand(1);
  CLI::App* build_command =
      app.add_subcommand("build", "Read a graph, partition it and write one HDF5 file a part");
  CLI::App* info_command = app.add_subcommand(
      "info",
      "Tell sizes, edge cut and balance of a partition directory, or describe a graph that is not "
      "partitioned: degrees, components, labels, and the memory that training takes");
  CLI::App* convert_command =
      app.add_subcommand("convert", "Write any graph, also one of parts, as a folder of NumPy arrays");
  CLI::App* repartition_command = app.add_subcommand("repartition",
                                                     "Cut the graph of a partition directory into another "
                                                     "number of parts; its original input is not needed");
  CLI::App* verify_command = app.add_subcommand(
      "verify",
      "Check every byte and invariant of a partition directory. Takes 25 bytes of memory per "
      "node and, per thread, 4 MiB, an eighth of a byte per node and a 4096th of a part");
  args.input.add_to(*build_command, InputOptions::Naming::option);
  add_memory(*build_command, args);
  add_class_limit(*build_command, args);
  add_partitioning(*build_command, args, kMethods);
  add_output(*build_command, args);
  add_common(*build_command, args);
  args.input.add_to(*info_command, InputOptions::Naming::positional);
  add_json(*info_command, args);
  args.input.add_to(*convert_command, InputOptions::Naming::positional);
  convert_command->add_option("TARGET", args.target, "npy:DIR, which must not exist")
      ->required()
      ->group("Input");
  add_common(*convert_command, args);
  repartition_command->add_option("DIR", args.directory, "A directory that strata-partition wrote")
      ->required();
  add_partitioning(*repartition_command, args, std::string(kMethods) + kMoreMethods);
  add_output(*repartition_command, args);
  add_common(*repartition_command, args);
  add_inspection(*verify_command, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help, version
    refuse_command_line(error, app);
  }
  init_log(kProgram, enum_value<LogLevel>(args.log_level, "--log-level"));
  if (build_command->parsed()) return run_build(args, *build_command);
  if (repartition_command->parsed()) return run_repartition(args, *repartition_command);
  if (convert_command->parsed()) return run_convert(args, *convert_command);
  return info_command->parsed() ? run_info(args, *info_command) : run_verify(args);
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
