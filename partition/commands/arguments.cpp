// SPDX-License-Identifier: Apache-2.0
#include "commands/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "strata/util/error.hpp"

namespace strata::partition {
namespace {

using options::OptionTable;

struct MethodOrFile {
  using Value = Arguments::Method;
  static std::string hint() { return "NAME"; }
  static std::string shown(const Value& value) { return std::string(enum_name(value.kind)); }
  static Value from_text(std::string_view what, std::string_view text) {
    constexpr std::string_view kFile = "file:";
    if (!text.starts_with(kFile) && text != "file")
      return {.kind = enum_value<PartitionMethod>(text, what), .file = {}};
    if (text.size() <= kFile.size())
      throw InputError(fmt::format("{} {}: it names no file", what, text), "Give file:PATH.");
    return {.kind = PartitionMethod::file, .file = text.substr(kFile.size())};
  }
};

/// Names with commas between them, in one value or several.
struct Constraints {
  using Value = std::vector<Constraint>;
  static std::string hint() { return "NAMES"; }
  static std::string shown(const Value&) { return "nodes"; }
  static void add(Value& value, std::string_view what, std::string_view text) {
    for (const std::string_view name : options::split_list(what, text)) {
      const auto constraint = enum_value<Constraint>(name, what);
      if (std::ranges::find(value, constraint) != value.end())
        throw InputError(fmt::format("{} names {} twice", what, name), "Name each once.");
      value.push_back(constraint);
    }
  }
};

struct Share : options::Real {
  static constexpr double kLeast = 0.001, kMost = 10;
  static std::string hint() { return fmt::format("{}..{}", kLeast, kMost); }
  static Value from_text(std::string_view what, std::string_view text) {
    const double value = Real::from_text(what, text);
    if (value < kLeast || value > kMost)
      throw InputError(fmt::format("{}: {} is too {}", what, text, value < kLeast ? "small" : "large"),
                       fmt::format("Give a number from {} to {}.", kLeast, kMost));
    return value;
  }
};

/// Two shares, or a split and a file of its edges.
struct EdgeSplitChoice {
  using Value = graph::EdgeSplitOptions;
  static std::string hint() { return "V,T|NAME=FILE"; }
  static std::string shown(const Value&) { return ""; }
  static void add(Value& splits, std::string_view what, std::string_view text) {
    if (text.find('=') == text.npos) return take_shares(splits, what, text);
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    std::filesystem::path* const file = name == "valid" || name == "val" ? &splits.valid_ids
                                        : name == "test"                 ? &splits.test_ids
                                                                         : nullptr;
    if (file == nullptr || equals + 1 == text.size() || !file->empty() || splits.draws())
      throw InputError(fmt::format("{} {}: not a split and a file of its edges", what, text), kRemedy);
    *file = text.substr(equals + 1);
  }

 private:
  static constexpr const char* kRemedy =
      "Give the shares of validation and test, such as 0.1,0.1; or valid=FILE and test=FILE, each once.";

  static void take_shares(Value& splits, std::string_view what, std::string_view text) {
    const std::vector<std::string_view> shares = options::split_list(what, text);
    if (shares.size() != 2 || splits.any())
      throw InputError(fmt::format("{} {}: not two shares", what, text), kRemedy);
    splits.valid = options::Real::from_text(what, shares[0]);
    splits.test = options::Real::from_text(what, shares[1]);
    if (splits.valid < 0 || splits.test < 0 || !splits.draws() || splits.valid + splits.test >= 1)
      throw InputError(fmt::format("{} {}: shares are at least 0, and less than 1 together", what, text),
                       kRemedy);
  }
};

struct NodesBelow {
  using Value = std::optional<Count>;
  static std::string hint() { return "N"; }
  static std::string shown(const Value&) { return ""; }
  static Value from_text(std::string_view what, std::string_view text) {
    return options::Integer<Count, 0>::from_text(what, text);
  }
};

struct MemoryLimit : options::Bytes {
  static Value from_text(std::string_view what, std::string_view text) {
    constexpr Value kLeast = Value{64} << 20;
    const Value limit = Bytes::from_text(what, text);
    if (limit < kLeast)
      throw InputError(fmt::format("{} {}: less than the program itself takes", what, text),
                       "Give 64MiB or more, such as --memory 16GiB.");
    return limit;
  }
};

struct ExistingFolder : options::Path {
  static std::string hint() { return "DIR"; }
  static Value from_text(std::string_view what, std::string_view text) {
    std::error_code code;
    if (!std::filesystem::is_directory(text, code))
      throw InputError(fmt::format("{} {}: no such directory", what, text), "Name a folder that exists.");
    return text;
  }
};

/// `temporary_files` names the default folder for them; null: there are none.
void add_running(OptionTable& table, Arguments& args, const char* temporary_files) {
  table.group("Running", "");
  if (temporary_files != nullptr) {
    table.add_as<MemoryLimit>("memory", args.memory_bytes,
                              "Memory that the program may use, such as 16GiB; default: what is free. Edges "
                              "that need more go to temporary files");
    table.add_as<ExistingFolder>("scratch", args.scratch,
                                 fmt::format("Folder for temporary files; default: {}", temporary_files));
  }
  table.add_as<options::Integer<int, 0, 4096>>("threads", args.build.num_threads,
                                               "Number of threads; 0: one per core");
  table.add("log-level", args.log_level, "Lowest level of messages");
}

/// `more`: the methods of repartition, which knows the parts that are there.
void add_partitioning(OptionTable& table, Arguments& args, const char* more) {
  AssignOptions& assign = args.build.assign;
  table.group("Partitioning", "");
  table.add_as<options::Integer<int, 1, 100000>>("parts", assign.num_parts, "Number of parts")
      .like("N")
      .required()
      .default_value.clear();
  table.add_as<MethodOrFile>(
      "method", args.method,
      fmt::format(
          "How nodes are assigned to parts: auto or multilevel (few cut edges, for graphs of any size), metis "
          "(METIS k-way), random, range (of ids), or file:PATH (one part id per line). On small graphs auto "
          "also tries METIS{}",
          more));
  table.add(
      "quality", assign.quality,
      "Quality of the cut: strong takes auto and multilevel several times as long and cuts fewer edges");
  table.add("device", assign.device,
            "Device on which auto, multilevel, split and --clusters cluster and refine large graphs; cuda is "
            "one GPU. The parts are the same");
  table.add_as<Constraints>(
      "balance", args.balance,
      "What auto, multilevel and metis balance, separated by commas: nodes, edges (in-edges), train (training "
      "nodes), weights (every kind of node weight in the input), types (the nodes of each type). Default: nodes, "
      "and of several types nodes,train");
  table.add_as<Share>("imbalance", assign.imbalance,
                      "Allowed imbalance: how far a part may exceed the mean; 0.03 is 3 percent");
  table.add_as<options::Integer<int, 0, 65536>>(
      "clusters", assign.clusters,
      "Also cut every part into N clusters. The ranks of a machine get seeds in the order of clusters, so "
      "that fewer rows are read by several ranks; 0: none");
  table.add_as<NodesBelow>(
      "replicate-below", args.build.replicate_below,
      "Have every machine keep a copy of the rows and neighbor lists of types of fewer than N nodes, so that "
      "no batch asks another machine for them; 0: of none. Default: the smallest types, if their copies take "
      "at most a fiftieth of what a part takes");
  table.add("seed", assign.seed, "Random seed of all methods except range and file");
}

void add_output(OptionTable& table, Arguments& args) {
  table.group("Output", "");
  table
      .add("output", args.build.output, "Folder to create; it appears in one step when all parts are written")
      .like("DIR")
      .required();
  table
      .add("report", args.report,
           "Also draw the partition on a page of HTML: balance, edges between parts, halo nodes, degrees, "
           "time and memory. strata-report draws it from FILE.json, which is written, too")
      .like("FILE");
  table.add("force", args.build.force, "Replace an existing partition directory");
}

void add_json(OptionTable& table, Arguments& args) {
  table.group("Output", "");
  table.add("json", args.json, "Print JSON instead of text");
}

void add_directory(OptionTable& table, Arguments& args) {
  table.group("Input", "");
  table.place("DIR", args.directory, "Partition directory that strata-partition wrote");
}

}  // namespace

void add_build_options(OptionTable& table, Arguments& args) {
  args.input.add_to(table, InputOptions::Naming::option);
  table
      .add_as<options::Integer<Count, 1, Count{1} << 31>>(
          "max-classes", args.build.max_classes,
          "Refuse labels or metadata with more classes than this; a model has one output per class")
      .like("N");
  table.add_as<EdgeSplitChoice>(
      "edge-split", args.edge_split,
      "Hold edges out of the neighbor lists, for predicting links: the shares of validation and test, drawn by "
      "--seed, such as 0.1,0.1; or a file (.npy, .csv) of edge ids or a mask: valid=FILE, test=FILE. All edges "
      "between two nodes are of one split");
  table
      .add(
          "split-relation", args.edge_split.relations,
          "Split the edges of these relations and their reverses, such as author__writes__paper; default: all")
      .like("NAMES");
  add_partitioning(table, args, "");
  add_output(table, args);
  add_running(table, args, "beside the output");
}

void add_info_options(OptionTable& table, Arguments& args) {
  args.input.add_to(table, InputOptions::Naming::place);
  add_json(table, args);
  add_running(table, args, "in TMPDIR");
}

void add_convert_options(OptionTable& table, Arguments& args) {
  args.input.add_to(table, InputOptions::Naming::place);
  table.group("Output", "");
  table.place("TARGET", args.target, "Folder of arrays to create: npy:DIR, which must not exist");
  add_running(table, args, "beside the target");
}

void add_repartition_options(OptionTable& table, Arguments& args) {
  add_directory(table, args);
  add_partitioning(table, args,
                   ". merge joins whole parts, split cuts each part into the same number of parts");
  add_output(table, args);
  add_running(table, args, "beside the output");
}

void add_verify_options(OptionTable& table, Arguments& args) {
  add_directory(table, args);
  add_json(table, args);
  add_running(table, args, nullptr);
}

void finish_assign_options(Arguments& args, const options::GivenOptions& given, bool repartition) {
  AssignOptions& assign = args.build.assign;
  const PartitionMethod method = assign.method = args.method.kind;
  assign.file = args.method.file;
  if (method == PartitionMethod::file) check_parts_file(assign.file);
  if (!repartition && (method == PartitionMethod::merge || method == PartitionMethod::split))
    throw InputError(fmt::format("--method {} is for parts that are there", enum_name(method)),
                     "Leave it out, or give them to strata-partition repartition.");
  if (!args.balance.empty()) assign.balance = args.balance;
  if (!looks_for_few_cut_edges(method) && (given.has("balance") || given.has("imbalance")))
    throw InputError("--balance and --imbalance are for --method auto, multilevel and metis only",
                     "Leave them out, or use one of these.");
  const bool is_multilevel = looks_for_few_cut_edges(method) && method != PartitionMethod::metis;
  if (!is_multilevel && given.has("quality"))
    throw InputError("--quality is for --method auto and multilevel only",
                     "Leave it out, or use one of these.");
  if (!is_multilevel && assign.clusters == 0 && assign.device == CutDevice::cuda)
    throw InputError("--device cuda is for --method auto and multilevel, and for --clusters",
                     "Leave it out, or use one of these.");
  if (assign.clusters == 1)
    throw InputError("--clusters 1 makes no difference: it is the part itself", "Give 2 or more, or 0.");
}

}  // namespace strata::partition
