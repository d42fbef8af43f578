// SPDX-License-Identifier: Apache-2.0
#include "commands/input_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "strata/graph/dataset_source.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::partition {
namespace {

constexpr const char* kGroup = "Input";

std::optional<DType> storage_type(const std::string& name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    if (name == name_of(type)) return type;
  return std::nullopt;
}

bool names_a_file(const std::string& text) {
  return text.find('.') != text.npos || text.find('/') != text.npos;
}

void add_names(CLI::App& command, InputOptions& input) {
  const auto add_choice = [&](const char* name, std::string& value, const char* help,
                              const std::vector<std::string>& known) {
    command.add_option(name, value, help)
        ->capture_default_str()
        ->check(CLI::IsMember(known))
        ->type_name("NAME")
        ->group(kGroup);
  };
  add_choice("--direction", input.direction,
             "Direction of edges: auto (as the dataset says), directed, or undirected (each edge in both "
             "directions)",
             {"auto", "directed", "undirected"});
  add_choice("--duplicates", input.duplicates, "What to do with repeated edges: keep or remove",
             {"keep", "remove"});
  add_choice("--self-loops", input.self_loops, "What to do with edges from a node to itself: keep or remove",
             {"keep", "remove"});
}

void add_files(CLI::App& command, InputOptions& input) {
  command
      .add_option(
          "--features", input.features,
          "Type in which features are stored: f32 (default), f16, bf16, or compressed: i8, i4 (with a scale "
          "per row), vq (one byte per 4 columns, by trained codebooks); or the file to take features from "
          "(.npy, .csv). Give the option twice for both")
      ->type_name("TYPE|FILE")
      ->allow_extra_args(false)
      ->group(kGroup);
  command.add_option("--labels", input.labels, "Take labels from this file (.npy, .csv)")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option(
          "--split", input.splits,
          "Take a split from a file (.npy, .csv) of node ids or a mask: train=FILE, valid=FILE or test=FILE. "
          "May be given once per split")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false)
      ->group(kGroup);
}

void take_features(InputOptions& input) {
  bool has_type = false;
  for (const std::string& text : input.features) {
    const std::optional<DType> dtype = storage_type(text);
    const RowCode::Kind code = code_named(text);
    const bool type = dtype || code != RowCode::Kind::none;
    if (!type && !names_a_file(text))
      throw InputError(fmt::format("--features {}: neither a type nor a file", text),
                       "Give f32, f16, bf16, i8, i4 or vq for the type to store, or a file such as x.npy.");
    if (type ? has_type : !input.files.features.empty())
      throw InputError(fmt::format("--features {}: the second {}", text, type ? "type" : "file"),
                       "Give it once.");
    if (type) {
      input.feature_type = text;
      input.feature_dtype = dtype.value_or(DType::f32);
      input.feature_code = code;
      has_type = true;
    } else {
      input.files.features = text;
    }
  }
}

void take_splits(InputOptions& input) {
  for (const std::string& text : input.splits) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    graph::NodeFiles& files = input.files;
    std::filesystem::path* const file = name == "train"                    ? &files.train
                                        : name == "valid" || name == "val" ? &files.valid
                                        : name == "test"                   ? &files.test
                                                                           : nullptr;
    if (equals == text.npos || file == nullptr || equals + 1 == text.size())
      throw InputError(fmt::format("--split {}: not a name and a file", text),
                       "Give train=FILE, valid=FILE or test=FILE.");
    if (!file->empty()) throw InputError(fmt::format("--split {}=: given twice", name), "Give each once.");
    *file = text.substr(equals + 1);
  }
}

/// Refuses options of cleaning for parts, which were cleaned when they were built.
void refuse_for_parts(const CLI::App& command, const std::string& spec) {
  for (const char* const name : {"--direction", "--duplicates", "--self-loops", "--allow-outside-paths"})
    if (const CLI::Option* option = command.get_option_no_throw(name); option != nullptr && *option)
      throw InputError(fmt::format("{} has no effect on {}, which has parts", name, spec),
                       "Leave it out, or give the input that the parts were built from.");
}

}  // namespace

void InputOptions::add_to(CLI::App& command, Naming naming) {
  const bool positional = naming == Naming::positional;
  command
      .add_option(positional ? "SPEC" : "--input", spec,
                  fmt::format("The graph to read: {}{}. docs/data.md describes each form",
                              fmt::join(graph::dataset_forms(), ", "), positional ? ", or parts" : ""))
      ->type_name(positional ? "" : "SPEC")
      ->required()
      ->group(kGroup);
  add_names(command, *this);
  command
      .add_flag("--normalize-features", read.normalize_features,
                "Scale each feature row so that its absolute values sum to 1")
      ->group(kGroup);
  command
      .add_flag("--allow-outside-paths", read.allow_outside_paths,
                "Trust a metadata.yaml with paths that are absolute or contain '..'")
      ->group(kGroup);
  add_files(command, *this);
}

void InputOptions::finish(const CLI::App& command, int num_threads) {
  using Direction = graph::ReadOptions::Direction;
  const auto policy = [](const std::string& name) {
    return name == "keep" ? graph::EdgePolicy::keep : graph::EdgePolicy::remove;
  };
  read.duplicates = policy(duplicates);
  read.self_loops = policy(self_loops);
  read.direction = direction == "auto"       ? Direction::automatic
                   : direction == "directed" ? Direction::directed
                                             : Direction::undirected;
  read.num_threads = num_threads;
  take_features(*this);
  take_splits(*this);
  files.labels = labels;
  source = graph::Source(spec);
  if (source.parts()) refuse_for_parts(command, spec);
}

}  // namespace strata::partition
