// SPDX-License-Identifier: Apache-2.0
#include "commands/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "commands/number_checks.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::partition {
namespace {

void add_common(CLI::App& command, Arguments& args) {
  command.add_option("--threads", args.build.num_threads, "Number of threads; 0: one per core")
      ->capture_default_str()
      ->check(whole_number(0, 4096))
      ->group("Running");
  command
      .add_option("--log-level", args.log_level,
                  "Lowest level of messages: trace, debug, info, warn, error or off")
      ->capture_default_str()
      ->group("Running");
}

/// `where` names the default folder for temporary files.
void add_memory(CLI::App& command, Arguments& args, const char* where) {
  command
      .add_option("--memory", args.memory,
                  "Memory that the program may use, such as 16GiB; default: what is free. Edges that need "
                  "more go to temporary files")
      ->type_name("BYTES")
      ->group("Running");
  command
      .add_option("--scratch", args.scratch, fmt::format("Folder for temporary files; default: {}", where))
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory)
      ->group("Running");
}

void add_class_limit(CLI::App& command, Arguments& args) {
  command
      .add_option("--max-classes", args.build.max_classes,
                  "Refuse labels or metadata with more classes than this; a model has one output per class")
      ->capture_default_str()
      ->check(whole_number(1, std::uint64_t{1} << 31))
      ->type_name("N")
      ->group("Input");
}

/// The choices of --method; repartition has more, because it knows the parts that are there.
constexpr const char* kMethods =
    "How nodes are assigned to parts: auto or multilevel (few cut edges, for graphs of any size), metis "
    "(METIS k-way), random, range (of ids), or file:PATH (one part id per line). On small graphs auto also "
    "tries METIS";
constexpr const char* kMoreMethods =
    ". merge joins whole parts, split cuts each part into the same number of parts";

void add_partitioning(CLI::App& command, Arguments& args, const std::string& methods) {
  constexpr const char* kGroup = "Partitioning";
  command.add_option("--parts", args.build.assign.num_parts, "Number of parts")
      ->type_name("N")
      ->required()
      ->check(whole_number(1, 100000))
      ->group(kGroup);
  command.add_option("--method", args.method, methods)
      ->capture_default_str()
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option("--quality", args.quality,
                  "Quality of the cut: default, or strong (auto and multilevel take several times as long "
                  "and cut fewer edges)")
      ->capture_default_str()
      ->check(CLI::IsMember({"default", "strong"}))
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option(
          "--device", args.device,
          "Device on which auto, multilevel, split and --clusters cluster and refine large graphs: cpu, or "
          "cuda (one GPU). The parts are the same")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option("--balance", args.balance,
                  "What auto, multilevel and metis balance, separated by commas: nodes, edges (in-edges), "
                  "train (training nodes), weights (every kind of node weight in the input)")
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"nodes", "edges", "train", "weights"}))
      ->type_name("NAMES")
      ->group(kGroup);
  command
      .add_option("--imbalance", args.build.assign.imbalance,
                  "Allowed imbalance: how far a part may exceed the mean; 0.03 is 3 percent")
      ->capture_default_str()
      ->check(number_within(0.001, 10.0))
      ->type_name("SHARE")
      ->group(kGroup);
  command
      .add_option("--clusters", args.build.assign.clusters,
                  "Also cut every part into N clusters. The ranks of a machine get seeds in the order of "
                  "clusters, so that fewer rows are read by several ranks; 0: none")
      ->capture_default_str()
      ->check(whole_number(0, 65536))
      ->type_name("N")
      ->group(kGroup);
  command.add_option("--seed", args.build.assign.seed, "Random seed of all methods except range and file")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str()
      ->group(kGroup);
}

void add_output(CLI::App& command, Arguments& args) {
  constexpr const char* kGroup = "Output";
  command
      .add_option("--output", args.build.output,
                  "Folder to create; it appears in one step when all parts are written")
      ->type_name("DIR")
      ->required()
      ->group(kGroup);
  command
      .add_option("--report", args.report,
                  "Also draw the partition on a page of HTML: balance, edges between parts, halo nodes, "
                  "degrees, time and memory. strata-report draws it from FILE.json, which is written, too")
      ->type_name("FILE")
      ->group(kGroup);
  command.add_flag("--force", args.build.force, "Replace an existing partition directory")->group(kGroup);
}

void add_json(CLI::App& command, Arguments& args) {
  command.add_flag("--json", args.json, "Print JSON instead of text");
  add_common(command, args);
}

void add_inspection(CLI::App& command, Arguments& args) {
  command.add_option("DIR", args.directory, "Partition directory that strata-partition build wrote")
      ->required();
  add_json(command, args);
}

/// `repartition`: whether the command has parts to merge and split.
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
    check_parts_file(assign.file);
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
  const std::map<std::string, Constraint> constraints{{"nodes", Constraint::nodes},
                                                      {"edges", Constraint::edges},
                                                      {"train", Constraint::train},
                                                      {"weights", Constraint::weights}};
  args.build.assign.balance.clear();
  for (const std::string& name : args.balance) {
    auto& balance = args.build.assign.balance;
    if (std::find(balance.begin(), balance.end(), constraints.at(name)) != balance.end()) {
      throw InputError(fmt::format("--balance names {} twice", name), "Name each once.");
    }
    balance.push_back(constraints.at(name));
  }
}

}  // namespace

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
  if ((!looks_for_few_cut_edges(method) || method == PartitionMethod::metis) &&
      args.build.assign.clusters == 0 && args.device == "cuda") {
    throw InputError("--device cuda is for --method auto and multilevel, and for --clusters",
                     "Leave it out, or use one of these.");
  }
  if (args.build.assign.clusters == 1)
    throw InputError("--clusters 1 makes no difference: it is the part itself", "Give 2 or more, or 0.");
  args.build.assign.quality = args.quality == "strong" ? CutQuality::strong : CutQuality::standard;
  args.build.assign.device = args.device == "cuda" ? CutDevice::cuda : CutDevice::cpu;
}

CommandOptions add_commands(CLI::App& app, Arguments& args) {
  CommandOptions commands{};
  commands.build = app.add_subcommand("build", "Read a graph, partition it and write one HDF5 file per part");
  commands.info = app.add_subcommand("info",
                                     "Show sizes, edge cut and balance of a partition directory, or describe "
                                     "a graph that is not partitioned: "
                                     "degrees, components, labels, and the memory that training takes");
  commands.convert =
      app.add_subcommand("convert", "Write any graph, also one in parts, as a folder of NumPy arrays");
  commands.repartition = app.add_subcommand("repartition",
                                            "Cut the graph of a partition directory into another number of "
                                            "parts; the original input is not needed");
  commands.verify = app.add_subcommand(
      "verify",
      "Check every byte and invariant of a partition directory. Needs 25 bytes of memory per node and, per "
      "thread, 4 MiB, an eighth of a byte per node and a 4096th of a part");
  args.input.add_to(*commands.build, InputOptions::Naming::option);
  add_memory(*commands.build, args, "beside the output");
  add_class_limit(*commands.build, args);
  add_partitioning(*commands.build, args, kMethods);
  add_output(*commands.build, args);
  add_common(*commands.build, args);
  args.input.add_to(*commands.info, InputOptions::Naming::positional);
  add_memory(*commands.info, args, "in TMPDIR");
  add_json(*commands.info, args);
  args.input.add_to(*commands.convert, InputOptions::Naming::positional);
  commands.convert
      ->add_option("TARGET", args.target, "Folder of arrays to create: npy:DIR, which must not exist")
      ->required()
      ->group("Input");
  add_memory(*commands.convert, args, "beside the target");
  add_common(*commands.convert, args);
  commands.repartition->add_option("DIR", args.directory, "Partition directory that strata-partition wrote")
      ->required();
  add_memory(*commands.repartition, args, "beside the output");
  add_partitioning(*commands.repartition, args, std::string(kMethods) + kMoreMethods);
  add_output(*commands.repartition, args);
  add_common(*commands.repartition, args);
  add_inspection(*commands.verify, args);
  return commands;
}

}  // namespace strata::partition
