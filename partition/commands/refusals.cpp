// SPDX-License-Identifier: Apache-2.0
#include "commands/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "strata/graph/read_graph.hpp"
#include "strata/partition/command.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::partition {
namespace {

namespace fs = std::filesystem;

/// A path without links and "..", as far as it exists, and without a slash at the end.
fs::path resolved(const fs::path& path) {
  std::error_code code;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, code), code);
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether a path is that folder, or lies in it.
bool is_within(const fs::path& path, const fs::path& folder) {
  const fs::path inner = resolved(path), outer = resolved(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// The partition directory that is read, if it is one.
std::optional<fs::path> parts_of(const InputOptions& input) {
  if (input.given) return std::nullopt;
  const auto parts = input.source.parts();
  const auto* const directory = parts ? std::get_if<fs::path>(&*parts) : nullptr;
  return directory != nullptr ? std::optional(*directory) : std::nullopt;
}

/// Whether a file belongs to the input; a new file beside those of a dataset does not.
bool is_of_input(const fs::path& file, const InputOptions& input) {
  if (const auto parts = parts_of(input); parts && is_within(file, *parts)) return true;
  std::error_code code;
  if (!fs::exists(file, code)) return false;
  const graph::NodeFiles& files = input.files;
  for (const fs::path* const path : {&files.features, &files.labels, &files.train, &files.valid, &files.test})
    if (!path->empty() && fs::equivalent(file, *path, code)) return true;
  const graph::DatasetSource* const dataset = input.source.dataset();
  return dataset != nullptr && is_within(file, dataset->place);
}

/// Throws InputError for a file that --report cannot write.
void check_report_file(const fs::path& file, const Arguments& args) {
  const auto refuse = [&](const char* what) {
    throw InputError(fmt::format("--report {}: {}", file.string(), what),
                     "Choose another name for the page, such as report.html.");
  };
  std::error_code code;
  const fs::file_status status = fs::status(file, code);
  if (fs::is_directory(status)) refuse("is a directory");
  if (fs::exists(status) && !fs::is_regular_file(status))
    refuse("exists and is no file that can be replaced");
  if (is_within(file, args.build.output)) refuse("lies in --output, which holds parts only");
  if (resolved(file) == resolved(names_file(args.build.output))) refuse("is the file for the names of nodes");
  if (is_of_input(file, args.input)) refuse("belongs to the input");
  if (can_write_file(file)) return;
  throw InputError(fmt::format("--report {}: cannot be written", file.string()),
                   "Choose a file in a folder that exists and can be written.");
}

}  // namespace

void check_report(const Arguments& args) {
  if (args.report.empty()) return;
  check_report_file(args.report, args);
  check_report_file(facts_file(args.report), args);
}

void check_outside_input(const fs::path& output, const InputOptions& input) {
  const auto parts = parts_of(input);
  if (!parts || !is_within(output, *parts) || resolved(output) == resolved(*parts)) return;
  throw InputError(fmt::format("{} lies in {}, whose parts are read: it would not be whole any more",
                               output.string(), parts->string()),
                   "Choose a folder outside.");
}

void check_seed(const Arguments& args, const options::GivenOptions& given) {
  const PartitionMethod method = args.build.assign.method;
  const bool draws = method != PartitionMethod::range && method != PartitionMethod::file;
  const bool has_codebooks = args.build.feature_code.kind == RowCode::Kind::vq;
  if (draws || has_codebooks || args.edge_split.draws() || args.build.assign.clusters > 0 ||
      !given.has("seed"))
    return;
  throw InputError(fmt::format("--seed has no effect on --method {}, which draws nothing", enum_name(method)),
                   "Leave it out; it is for other methods, --clusters, --edge-split and --features vq.");
}

void check_weights_to_balance(const Arguments& args) {
  using Format = graph::DatasetSource::Format;
  const InputOptions& input = args.input;
  const graph::DatasetSource* const dataset = input.source.dataset();
  const bool may_have =
      dataset != nullptr && (dataset->format == Format::metis || dataset->format == Format::npy);
  if (!may_have) return check_node_weights(0, args.build.assign);
  const graph::InputSize size = graph::measure_input(input.source, input.files);
  if (size.nodes > 0) check_node_weights(size.node_weight_kinds, args.build.assign);
}

void check_feature_type(const InputOptions& input, const char* why) {
  if (input.feature_type.empty()) return;
  throw InputError(fmt::format("--features {} has no effect: {}", input.feature_type, why),
                   "Leave it out; build stores features in a type.");
}

void check_has_nodes(const graph::Graph& graph, const InputOptions& input) {
  if (graph.num_nodes() > 0) return;
  throw InputError(fmt::format("{} has no edges, and does not say that there are nodes", input.spec),
                   "Check the file: is it empty, or are all of its lines comments?");
}

void check_has_features(const graph::Graph& graph, const InputOptions& input) {
  if (graph.features.cols > 0) return;
  const std::string option = !input.feature_type.empty()     ? "--features " + input.feature_type
                             : input.read.normalize_features ? "--normalize-features"
                                                             : "";
  if (option.empty()) return;
  throw InputError(fmt::format("{} has no effect: the graph \"{}\" has no features", option, graph.name),
                   "Leave it out, or give a file of them with --features.");
}

}  // namespace strata::partition
