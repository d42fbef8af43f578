// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "generators/igbh.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

using nlohmann::json;

constexpr Count kMost = Count{1} << 48;  // nodes, edges or columns: sums of them do not overflow

/// Reads a file as strata-partition info writes it.
class DescriptionFile {
 public:
  explicit DescriptionFile(std::filesystem::path path) : path_(std::move(path)) {}

  Description read() {
    try {
      const json file = json::parse(read_file(path_));
      manifest_.name = file.value("name", path_.stem().string());
      take_sizes(file);
      file.contains("types") ? take_types(file.at("types")) : take_one_type(file);
      take_target();
    } catch (const json::exception& e) {
      refuse(fmt::format("describes no graph ({})", e.what()));
    }
    return {.manifest = std::move(manifest_), .target = target_, .source_skew = std::move(source_skew_)};
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{} {}", path_.string(), what),
                     "Give the output of strata-partition info --json, or a file like it: docs/clusters.md.");
  }

  Count count(const json& object, const char* key) const {
    const Count value = object.at(key).get<Count>();
    if (value < 0 || value > kMost) refuse(fmt::format("has {} {}", value, key));
    return value;
  }

  void take_sizes(const json& file) {
    if (file.contains("features")) {
      const json& features = file.at("features");
      manifest_.feature_cols = count(features, "cols");
      const std::string dtype = features.value("dtype", "f32");
      if (dtype != "f32" && dtype != "f16" && dtype != "bf16")
        refuse(fmt::format("has features of \"{}\", not of f32, f16 or bf16", dtype));
      manifest_.feature_dtype = parse_dtype(dtype);
    }
    const json& classes = file.contains("labels") && file.at("labels").is_object() ? file.at("labels") : file;
    if (classes.contains("classes") && !classes.at("classes").is_null())
      manifest_.num_classes = count(classes, "classes");
    manifest_.has_labels = manifest_.num_classes > 0;
    manifest_.multi_label = file.value("multi_label", false);
  }

  void take_one_type(const json& file) {
    manifest_.types.node_offsets = {0, count(file, "num_nodes")};
    manifest_.types.edge_offsets = {0, manifest_.num_edges = count(file, "num_edges")};
    source_skew_ = {0.5};
    train_ = {file.contains("splits") ? count(file.at("splits"), "train") : 0};
  }

  void take_types(const json& file) {
    GraphTypes& types =
        manifest_.types = {.nodes = {}, .edges = {}, .node_offsets = {0}, .edge_offsets = {0}};
    for (const json& type : file.at("nodes")) {
      types.nodes.push_back(type.at("name").get<std::string>());
      types.node_offsets.push_back(types.node_offsets.back() + count(type, "nodes"));
      types.feature_cols.push_back(type.contains("feature_cols") ? count(type, "feature_cols")
                                                                 : manifest_.feature_cols);
      train_.push_back(type.contains("splits") ? count(type.at("splits"), "train") : 0);
    }
    for (const json& relation : file.at("relations")) {
      const auto type = [&](const char* end) {
        const auto name = relation.at(end).get<std::string>();
        if (std::ranges::find(types.nodes, name) == types.nodes.end())
          refuse(fmt::format("has a relation of \"{}\", which is no type of its nodes", name));
        return name;
      };
      types.edges.push_back({type("source"), relation.at("name").get<std::string>(), type("destination")});
      types.edge_offsets.push_back(types.edge_offsets.back() + count(relation, "edges"));
      source_skew_.push_back(skew_of(relation));
    }
    if (types.edges.size() > std::numeric_limits<RelationId>::max()) refuse("has too many relations");
    manifest_.num_edges = types.edge_offsets.back();
  }

  double skew_of(const json& relation) const {
    const auto nodes = [&](const std::string& type) {
      const auto t = std::ranges::find(manifest_.types.nodes, type) - manifest_.types.nodes.begin();
      return nodes_of_type(manifest_.types, static_cast<std::size_t>(t), 0).count;
    };
    const EdgeType& type = manifest_.types.edges.back();
    const Count sources = nodes(type.source), destinations = nodes(type.destination);
    const double skew = relation.value("source_skew", sources == destinations  ? 0.5
                                                      : sources < destinations ? 1.0
                                                                               : 0.0);
    if (!(skew >= 0 && skew <= 1)) refuse(fmt::format("has a source_skew of {}, not within [0, 1]", skew));
    return skew;
  }

  void take_target() {
    const auto most = std::ranges::max_element(train_);
    if (most == train_.end() || *most == 0) refuse("names no training nodes");
    target_ = static_cast<std::size_t>(most - train_.begin());
    manifest_.num_train = *most;
    const auto offset = manifest_.types.node_offsets.begin() + (most - train_.begin());
    if (*most > offset[1] - offset[0])
      refuse(fmt::format("has {} training nodes among {} nodes", *most, offset[1] - offset[0]));
  }

  std::filesystem::path path_;
  Manifest manifest_;
  std::vector<Count> train_;  // by type
  std::vector<double> source_skew_;
  std::size_t target_ = 0;
};

}  // namespace

std::optional<Description> describe(const Source& source) {
  const DatasetSource* const dataset = source.dataset();
  if (dataset != nullptr && dataset->format == DatasetSource::Format::synthetic_igbh)
    return describe_igbh(*dataset);
  std::error_code ignored;
  const std::filesystem::path path = dataset == nullptr ? source.text() : std::string();
  if (path.extension() != ".json" || !std::filesystem::is_regular_file(path, ignored)) return {};
  return DescriptionFile(path).read();
}

}  // namespace strata::graph
