// SPDX-License-Identifier: Apache-2.0
#include "commands/input_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"

namespace strata {

template <>
inline constexpr auto enum_names<graph::EdgePolicy> = std::to_array<EnumName<graph::EdgePolicy>>(
    {{graph::EdgePolicy::keep, "keep"}, {graph::EdgePolicy::remove, "remove"}});

template <>
inline constexpr auto enum_names<graph::ReadOptions::Direction> =
    std::to_array<EnumName<graph::ReadOptions::Direction>>(
        {{graph::ReadOptions::Direction::automatic, "auto"},
         {graph::ReadOptions::Direction::directed, "directed"},
         {graph::ReadOptions::Direction::undirected, "undirected"}});

}  // namespace strata

namespace strata::partition {
namespace {

using options::OptionTable;

std::optional<DType> storage_type(std::string_view name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    if (name == name_of(type)) return type;
  return std::nullopt;
}

/// A type, a file, or both in two values.
struct FeatureChoice {
  using Value = InputOptions;
  static std::string hint() { return "TYPE|FILE"; }
  static std::string shown(const Value&) { return ""; }
  static void add(Value& input, std::string_view what, std::string_view text) {
    const std::optional<DType> dtype = storage_type(text);
    const RowCode::Kind code = code_named(text);
    const bool is_type = dtype || code != RowCode::Kind::none;
    if (!is_type && text.find_first_of("./") == text.npos)
      throw InputError(
          fmt::format("{} {}: neither a type nor a file", what, text),
          "Give f32, f16, bf16, i8, e4m3, i4 or vq for the type to store, or a file such as x.npy.");
    if (is_type ? !input.feature_type.empty() : !input.files.features.empty())
      throw InputError(fmt::format("{} {}: the second {}", what, text, is_type ? "type" : "file"),
                       "Give it once.");
    if (!is_type) {
      input.files.features = text;
      return;
    }
    input.feature_type = text;
    input.feature_dtype = dtype.value_or(DType::f32);
    input.feature_code = code;
  }
};

struct SplitFile {
  using Value = graph::NodeFiles;
  static std::string hint() { return "NAME=FILE"; }
  static std::string shown(const Value&) { return ""; }
  static void add(Value& files, std::string_view what, std::string_view text) {
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    std::filesystem::path* const file = name == "train"                    ? &files.train
                                        : name == "valid" || name == "val" ? &files.valid
                                        : name == "test"                   ? &files.test
                                                                           : nullptr;
    if (equals == text.npos || file == nullptr || equals + 1 == text.size())
      throw InputError(fmt::format("{} {}: not a name and a file", what, text),
                       "Give train=FILE, valid=FILE or test=FILE.");
    if (!file->empty()) throw InputError(fmt::format("{} {}=: given twice", what, name), "Give each once.");
    *file = text.substr(equals + 1);
  }
};

}  // namespace

void InputOptions::add_to(OptionTable& table, Naming naming) {
  const bool is_place = naming == Naming::place;
  const std::string help = fmt::format("The graph to read: {}{}. docs/data.md describes each form",
                                       fmt::join(graph::dataset_forms(), ", "), is_place ? ", or parts" : "");
  table.group("Input", "");
  if (is_place)
    table.place("SPEC", spec, help);
  else
    table.add("input", spec, help).like("SPEC").required();
  table.add("direction", read.direction,
            "Direction of edges: auto (as the dataset says), directed, or undirected (each edge in both "
            "directions)");
  table.add("duplicates", read.duplicates, "What to do with repeated edges");
  table.add("self-loops", read.self_loops, "What to do with edges from a node to itself");
  table.add("normalize-features", read.normalize_features,
            "Scale each feature row so that its absolute values sum to 1");
  table.add("allow-outside-paths", read.allow_outside_paths,
            "Trust a metadata.yaml with paths that are absolute or contain '..'");
  table.add_as<FeatureChoice>(
      "features", *this,
      "Type in which features are stored: f32 (default), f16, bf16, or compressed: i8, e4m3 (FP8), i4 (with a "
      "scale per row), vq (one byte per 4 columns, by trained codebooks); or the file to take features from (.npy, "
      ".csv). Give the option twice for both");
  table.add("labels", files.labels, "Take labels from this file (.npy, .csv)").like("FILE");
  table
      .add(
          "targets", targets,
          "Take targets of regression from this file (.npy, .csv): a column or more of numbers, nan where one "
          "is missing")
      .like("FILE");
  table.add_as<SplitFile>(
      "split", files,
      "Take a split from a file (.npy, .csv) of node ids or a mask: train=FILE, valid=FILE or test=FILE. May "
      "be given once per split");
}

void InputOptions::take_targets() {
  if (targets.empty()) return;
  if (!files.labels.empty())
    throw InputError("--targets contradicts --labels", "Nodes have classes or targets: give one of them.");
  files.labels = targets;
  files.label_kind = graph::LabelKind::targets;
}

void InputOptions::finish(const options::GivenOptions& options, int num_threads) {
  read.num_threads = num_threads;
  source = graph::Source(spec);
  take_targets();
  if (given) {
    for (const char* const name : {"direction", "duplicates", "self-loops", "allow-outside-paths",
                                   "normalize-features", "labels", "targets", "split", "memory", "scratch"})
      if (options.has(name))
        throw InputError(fmt::format("--{} has no effect on a graph of several types in memory", name),
                         "Leave it out.");
    return;
  }
  if (!source.parts()) return;
  // Parts were cleaned when they were built.
  for (const char* const name : {"direction", "duplicates", "self-loops", "allow-outside-paths"})
    if (options.has(name))
      throw InputError(fmt::format("--{} has no effect on {}, which has parts", name, spec),
                       "Leave it out, or give the input that the parts were built from.");
}

}  // namespace strata::partition
