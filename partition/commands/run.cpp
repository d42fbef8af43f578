// SPDX-License-Identifier: Apache-2.0
#include "commands/run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "assign/memory_plan.hpp"
#include "commands/build_report.hpp"
#include "commands/read_input.hpp"
#include "commands/refusals.hpp"
#include "output/convert.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

using Json = nlohmann::ordered_json;

std::filesystem::path scratch_folder(const Arguments& args, const std::filesystem::path& otherwise) {
  return args.scratch.empty() ? otherwise : args.scratch;
}

/// Writes the facts for a page. The parts are there already, which an error has to state.
void write_facts(const Arguments& args, const BuildReport& report) {
  try {
    check_report(args);  // something else may have appeared there meanwhile
    write_file_atomically(facts_file(args.report), report_json(report, args.build.output));
  } catch (const Error& error) {
    throw IoError(error.what(), fmt::format("The parts in {} are whole; only the page is missing. {}",
                                            args.build.output.string(), error.remedy()));
  }
}

/// Balances training nodes of several types, too, where nothing else is asked for: few edges are cut where types
/// keep together, and one part could then have all nodes of the type that is trained on.
void balance_training_nodes(Arguments& args, const graph::Graph& graph) {
  AssignOptions& assign = args.build.assign;
  if (!args.balance.empty() || !looks_for_few_cut_edges(assign.method)) return;
  if (graph.types.nodes.size() > 1 && !graph.splits.train.empty())
    assign.balance = {Constraint::nodes, Constraint::train};
}

void split_edges(const Arguments& args, ReadInput& input) {
  if (!args.edge_split.any() && !args.edge_split.relations.empty())
    throw InputError("--split-relation has no effect without --edge-split", "Leave it out.");
  if (!args.edge_split.any()) return;
  if (input.stored.lists)
    throw InputError("--edge-split needs the edges in memory, but they lie in temporary files",
                     "Give more --memory, or use a host with more.");
  announce("splitting edges");
  ThreadPool pool(args.build.num_threads);
  graph::split_edges(input.stored.graph, args.edge_split, args.build.assign.seed, pool);
}

/// Reads the input of args.input, partitions it and reports the result.
CommandResult build_from_input(Arguments& args, const options::GivenOptions& given, StopFlag& stop) {
  check_seed(args, given);
  check_output(args.build);
  check_outside_input(args.build.output, args.input);
  const graph::DatasetSource* const dataset = args.input.source.dataset();
  if (dataset != nullptr && dataset->ids != graph::DatasetSource::Ids::number) check_names_file(args.build);
  check_report(args);
  check_weights_to_balance(args);
  std::optional<graph::InputStamp> stamp;
  if (!args.input.given) stamp.emplace(args.input.source, args.input.files, args.build.assign.file);
  args.build.before_publishing = [&stamp] {
    if (stamp) stamp->require_unchanged();
  };
  args.build.detailed = !args.report.empty();
  PhaseClock clock;
  ReadInput input = read_input(args.input, args.memory_bytes, memory_of_cut(args.build.assign),
                               scratch_folder(args, folder_of(args.build.output)));
  const Phase reading = clock.end("read");
  stop.check();
  check_has_nodes(input.stored.graph, args.input);
  check_has_features(input.stored.graph, args.input);
  split_edges(args, input);
  if (!input.scratch) balance_training_nodes(args, input.stored.graph);
  BuildReport report = input.scratch ? build(std::move(input.stored), args.build, *input.scratch, stop)
                                     : build(std::move(input.stored.graph), args.build, stop);
  report.phases.insert(report.phases.begin(), reading);
  if (!args.report.empty()) write_facts(args, report);
  return {.text = report_text(report, args.build.output),
          .json = report_json(report, args.build.output),
          .page = args.report};
}

/// Sets as many clusters per new part as the old ones have, unless another number is given.
void take_clusters(Arguments& args, const options::GivenOptions& given, const graph::Manifest& manifest) {
  if (manifest.num_clusters == 0 || given.has("clusters")) return;
  args.build.assign.clusters = static_cast<int>(manifest.num_clusters);
  spdlog::info("cutting the new parts into {} clusters each, as the old ones; --clusters 0 leaves them out",
               manifest.num_clusters);
}

/// Describes a graph that is not partitioned.
CommandResult run_summary(Arguments& args, const StopFlag& stop) {
  const graph::InputStamp stamp(args.input.source, args.input.files);
  std::error_code none;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  const ReadInput input = read_input(args.input, args.memory_bytes, memory_of_summary(),
                                     scratch_folder(args, none ? "." : temporary));
  stop.check();
  check_has_features(input.stored.graph, args.input);
  ThreadPool pool(args.build.num_threads);
  announce("describing the graph");
  const GraphSummary summary = summarize(input.stored.graph, input.lists(), pool);
  stamp.require_unchanged();
  return {.text = summary_text(summary), .json = summary_json(summary)};
}

}  // namespace

CommandResult run_build(Arguments& args, const options::GivenOptions& given, StopFlag& stop) {
  finish_assign_options(args, given, false);
  args.input.finish(given, args.build.num_threads);
  args.build.feature_dtype = args.input.feature_dtype;
  args.build.feature_code.kind = args.input.feature_code;
  args.build.input = args.input.source.text();
  return build_from_input(args, given, stop);
}

/// Partitions what parts hold anew: the same graph, with features as they are stored.
CommandResult run_repartition(Arguments& args, const options::GivenOptions& given, StopFlag& stop) {
  finish_assign_options(args, given, true);
  const graph::PartitionRecord record = graph::read_partition_record(args.directory);
  take_clusters(args, given, record.manifest);
  args.input.spec = args.directory.string();
  args.input.read.duplicates = args.input.read.self_loops = graph::EdgePolicy::keep;
  args.input.finish(given, args.build.num_threads);
  args.build.feature_dtype = record.manifest.feature_dtype;
  args.build.feature_code = record.manifest.feature_code;
  args.build.max_classes = std::max(args.build.max_classes, record.manifest.num_classes);
  args.build.input = record.build.input;
  AssignOptions& assign = args.build.assign;
  if (assign.method == PartitionMethod::merge || assign.method == PartitionMethod::split) {
    assign.given = std::make_shared<const GivenParts>(read_given_parts(args.directory));
    check_regrouping(assign);
  }
  return build_from_input(args, given, stop);
}

CommandResult run_info(Arguments& args, const options::GivenOptions& given, StopFlag& stop) {
  args.input.finish(given, args.build.num_threads);
  const auto parts = args.input.source.parts();
  const auto* const directory = parts ? std::get_if<std::filesystem::path>(&*parts) : nullptr;
  if (directory == nullptr) {
    check_feature_type(args.input, "info stores nothing");
    return run_summary(args, stop);
  }
  for (const char* const name : {"features", "labels", "targets", "split", "normalize-features"})
    if (given.has(name))
      throw InputError(fmt::format("--{} has no effect on {}, which has parts", name, args.input.spec),
                       "Leave it out.");
  const graph::PartitionRecord record = graph::read_partition_record(*directory);
  return {.text = info_text(record), .json = info_json(record)};
}

CommandResult run_convert(Arguments& args, const options::GivenOptions& given, StopFlag& stop) {
  args.input.finish(given, args.build.num_threads);
  const graph::Source target(args.target);
  const graph::DatasetSource* const folder = target.dataset();
  if (folder == nullptr || folder->format != graph::DatasetSource::Format::npy || folder->nodes)
    throw InputError(fmt::format("{} cannot be written", args.target),
                     "Write npy:DIR, a folder of NumPy arrays.");
  check_feature_type(args.input, "convert writes features as they are");
  check_npy_target(folder->place);
  check_outside_input(folder->place, args.input);
  const graph::InputStamp stamp(args.input.source, args.input.files);
  const ReadInput input = read_input(args.input, args.memory_bytes, memory_of_conversion(),
                                     scratch_folder(args, folder_of(folder->place)));
  stop.check();
  check_has_features(input.stored.graph, args.input);
  if (input.stored.graph.edge_splits.any())
    spdlog::warn("edges of validation and test that neighbor lists do not have are not written");
  const graph::ListsView lists = input.lists();
  announce("writing " + folder->place.string());
  write_npy_folder(input.stored.graph, lists, folder->place, stop, [&stamp] { stamp.require_unchanged(); });
  const std::string path = folder->place.string();
  return {
      .text = fmt::format("{}: {} nodes, {} edges\n", path, format_count(lists.num_nodes),
                          format_count(lists.num_edges())),
      .json = Json{{"path", path}, {"num_nodes", lists.num_nodes}, {"num_edges", lists.num_edges()}}.dump(2) +
              "\n"};
}

CommandResult run_verify(Arguments& args, const options::GivenOptions&, StopFlag&) {
  const std::vector<Problem> problems = verify(args.directory, args.build.num_threads);
  return {.text = verify_text(args.directory, problems),
          .json = verify_json(args.directory, problems),
          .succeeded = problems.empty()};
}

}  // namespace strata::partition
