// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/dataset_path.hpp"
#include "readers/edge_weights.hpp"
#include "readers/text/edge_buffer.hpp"
#include "readers/typed_graph.hpp"
#include "readers/yaml_document.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

/// A file that metadata.yaml refers to.
struct DataFile {
  std::string format;
  fs::path path;
};

const KnownFields kRoot{.owner = "the dataset",
                        .used = {"dataset_name", "graph", "feature_data", "tasks"},
                        .unused = {"graph_topology"}};
const KnownFields kGraph{.owner = "'graph'", .used = {"nodes", "edges", "feature_data"}, .unused = {"type"}};
const KnownFields kNodes{.owner = "an entry of 'nodes'", .used = {"num", "type"}};
const KnownFields kEdges{.owner = "an entry of 'edges'", .used = {"format", "path", "type"}};
const KnownFields kFeature{.owner = "an entry of 'feature_data'",
                           .used = {"domain", "name", "format", "path", "type"},
                           .unused = {"in_memory"}};
const KnownFields kTask{.owner = "a task",
                        .used = {"name", "num_classes", "train_set", "validation_set", "test_set"}};
const KnownFields kSet{.owner = "an entry of a set", .used = {"data", "type"}};
const KnownFields kSetData{
    .owner = "an array of a set", .used = {"name", "format", "path"}, .unused = {"in_memory"}};

class GraphboltReader {
 public:
  GraphboltReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source),
        folder_(source.place),
        document_(folder_ / "metadata.yaml"),
        task_(source.choice),
        options_(options),
        pool_(assembly.pool),
        assembly_(assembly) {}

  Graph read() {
    read_root(document_.root());
    if (source_.reverse) add_reverses(parts_);
    std::vector<std::size_t> labelled;
    for (std::size_t t = 0; t < about_.size(); ++t) {
      const Splits& splits = about_[t].splits;
      if (!about_[t].labels.empty() || !splits.train.empty() || !splits.valid.empty() || !splits.test.empty())
        labelled.push_back(t);
    }
    assembly_.targets = choose_targets(parts_.nodes, labelled, source_.target, document_.path().string());
    Graph graph = join_types(std::move(parts_), options_, assembly_);
    for (const std::size_t target : assembly_.targets)
      put_nodes(with_classes(std::move(about_[target]), set_of_[target]), target, graph);
    return graph;
  }

 private:
  [[noreturn]] void refuse(const YAML::Node& at, const std::string& what, const std::string& remedy) const {
    document_.refuse(at, what, remedy);
  }

  DataFile file_of(const YAML::Node& entry) const {
    const std::string path = document_.require_text(entry, "path");
    const std::string format = document_.require_text(entry, "format");
    if (format != "numpy" && format != "csv")
      refuse(entry, fmt::format("format '{}' is not supported", printable(format)),
             "Save the array as .npy and state format: numpy.");
    const auto found = path_in_dataset(folder_, path, options_.allow_outside_paths);
    if (!found)
      refuse(entry["path"], fmt::format("path '{}' leads out of the dataset's folder", printable(path)),
             "Move the file into the folder, or trust the file with --allow-outside-paths.");
    return {.format = format, .path = *found};
  }

  NpyArray array_of(const YAML::Node& entry) const {
    const DataFile file = file_of(entry);
    if (file.format != "numpy")
      refuse(entry, fmt::format("format '{}' is for edges only", file.format),
             "Save the array as .npy and state format: numpy.");
    return read_npy(file.path);
  }

  void read_root(const YAML::Node& root) {
    document_.check_fields(root, kRoot);
    parts_.name =
        document_.text(root, "dataset_name").value_or(fs::weakly_canonical(folder_).filename().string());
    const YAML::Node structure = document_.require(root, "graph");
    document_.check_fields(structure, kGraph);
    document_.require(structure, "nodes");
    document_.require(structure, "edges");
    const std::vector<YAML::Node> nodes = document_.list(structure, "nodes"),
                                  edges = document_.list(structure, "edges");
    several_ = nodes.size() > 1 || edges.size() > 1;
    for (const YAML::Node& entry : several_ ? nodes : std::vector{document_.require_only(structure, "nodes")})
      read_type(entry);
    for (const YAML::Node& holder : {structure, root}) find_edge_weights(holder);
    refuse_misnamed_weight();
    for (const YAML::Node& entry : several_ ? edges : std::vector{document_.require_only(structure, "edges")})
      read_edges(entry);
    read_features(root);
    if (root["tasks"]) read_task(root);
  }

  void read_type(const YAML::Node& entry) {
    document_.check_fields(entry, kNodes);
    about_.emplace_back().structure.num_nodes = document_.require_number(entry, "num");
    set_of_.push_back(0);
    parts_.nodes.push_back({.type = several_ ? document_.require_text(entry, "type") : "node",
                            .count = about_.back().num_nodes()});
  }

  /// The type of nodes of an entry; files of graphs of one type need not name it.
  std::size_t type_of(const YAML::Node& entry) const {
    if (!several_) return 0;
    const std::string type = document_.require_text(entry, "type");
    const auto found = std::ranges::find(parts_.nodes, type, &TypedParts::Nodes::type);
    if (found == parts_.nodes.end())
      refuse(entry["type"], fmt::format("the type '{}' is not one of 'nodes'", printable(type)),
             "Give every type of nodes with its number of nodes.");
    return static_cast<std::size_t>(found - parts_.nodes.begin());
  }

  /// The relation of an entry as text; empty if there is only one.
  std::string relation_of(const YAML::Node& entry) const {
    return several_ ? document_.require_text(entry, "type") : "";
  }

  /// Reads edges as listed, because GraphBolt lists both directions of undirected edges.
  void read_edges(const YAML::Node& entry) {
    document_.check_fields(entry, kEdges);
    const DataFile file = file_of(entry);
    const std::string relation = relation_of(entry);
    EdgeType type = several_ ? parse_relation(relation, ":", document_.path().string()) : EdgeType{};
    TypedParts::Edges edges =
        file.format == "csv"
            ? edges_between(std::move(type), read_csv_edges(file.path, {}, pool_, assembly_.scratch))
            : edges_between(std::move(type), read_npy(file.path), assembly_.scratch);
    if (const auto weights = weight_entries_.find(relation); weights != weight_entries_.end())
      give_weights(edges, read_edge_weights(weights->second, edges.list), array_of(weights->second).origin);
    parts_.edges.push_back(std::move(edges));
  }

  EdgeWeights read_edge_weights(const YAML::Node& entry, const EdgeList& edges) {
    EdgeWeights weights = edge_weights_of(array_of(entry), assembly_.scratch);
    if (weights.size() != edges.count)
      refuse(entry, fmt::format("{} weights for {} edges", weights.size(), edges.count),
             "Write one weight per edge, in the order of the edges.");
    return weights;
  }

  /// Finds the edge feature called `weight` in the graph's own list, where GraphBolt's samplers look, or in
  /// that of the dataset.
  void find_edge_weights(const YAML::Node& holder) {
    for (const YAML::Node& entry : document_.list(holder, "feature_data")) {
      document_.check_fields(entry, kFeature);
      if (document_.require_text(entry, "domain") != "edge") continue;
      if (const std::string name = document_.require_text(entry, "name"); name != "weight") {
        note_unread_edge_feature(entry, name);
        continue;
      }
      if (!weight_entries_.emplace(relation_of(entry), entry).second)
        refuse(entry, "a second weight of edges", "Name one feature of the edges 'weight'.");
    }
  }

  /// Weights under another name are refused in the end, if there are none of the right name.
  void note_unread_edge_feature(const YAML::Node& entry, const std::string& name) {
    const bool meant = name == "w" || name.starts_with("edge_w") || !closest(name, {"weight"}).empty();
    if (meant && !misnamed_weight_)
      misnamed_weight_.emplace(entry);
    else
      document_.warn(entry, fmt::format("edge feature '{}' is not read; only 'weight' is", printable(name)));
  }

  void refuse_misnamed_weight() const {
    if (!misnamed_weight_) return;
    const std::string name = printable(document_.require_text(*misnamed_weight_, "name"));
    if (weight_entries_.empty())
      refuse(*misnamed_weight_, fmt::format("edge feature '{}' is not read", name),
             "Did you mean 'weight'? Edges are sampled by a feature of this name; remove the entry if it is "
             "none.");
    document_.warn(*misnamed_weight_, fmt::format("edge feature '{}' is not read; only 'weight' is", name));
  }

  static bool is_label(const std::string& name) { return name == "label" || name == "labels"; }

  /// Reads the node feature called `feat` if there are several; one called `label` holds labels of all nodes.
  void read_features(const YAML::Node& root) {
    std::vector<std::vector<std::string>> names(about_.size());
    std::vector<std::optional<YAML::Node>> chosen(about_.size());
    for (const YAML::Node& entry : document_.list(root, "feature_data")) {
      if (document_.require_text(entry, "domain") != "node") continue;
      const std::size_t type = type_of(entry);
      const std::string name = document_.require_text(entry, "name");
      if (is_label(name)) {
        read_all_labels(entry, type);
        continue;
      }
      names[type].push_back(name);
      if (name == "feat" || names[type].size() == 1) chosen[type].emplace(entry);
    }
    for (std::size_t type = 0; type < chosen.size(); ++type)
      if (chosen[type]) read_feature(*chosen[type], names[type], type);
  }

  void read_feature(const YAML::Node& entry, const std::vector<std::string>& names, std::size_t type) {
    const std::string all = printable(fmt::format("{}", fmt::join(names, ", ")));
    if (names.size() > 1 && document_.require_text(entry, "name") != "feat")
      refuse(entry, fmt::format("several node features: {}", all), "Name the one to train on 'feat'.");
    if (names.size() > 1)
      document_.warn(entry, fmt::format("of the node features {}, only 'feat' is read", all));
    about_[type].features = features_of(array_of(entry), about_[type].num_nodes(), pool_, assembly_.scratch);
    parts_.nodes[type].features = about_[type].features;
  }

  void read_all_labels(const YAML::Node& entry, std::size_t type) {
    NodeLabels labels = labels_of(array_of(entry));
    if (labels.rows != about_[type].num_nodes())
      refuse(entry, fmt::format("{} labels for {} nodes", labels.rows, about_[type].num_nodes()),
             "Write one label per node; -1 stands for a missing one.");
    make_room(entry, type, labels.set_of);
    about_[type].labels = std::move(labels.values);
  }

  /// Makes missing labels for all nodes of a type. All arrays of labels must be of the same kind.
  void make_room(const YAML::Node& entry, std::size_t type, Count set_of) {
    Graph& nodes = about_[type];
    if (!nodes.labels.empty()) {
      if (nodes.multi_label ? set_of == set_of_[type] : set_of == 0) return;
      refuse(entry, "labels of other shape than before",
             "Give all labels as one class, or all as a row of 0 and 1.");
    }
    set_of_[type] = set_of;
    nodes.multi_label = set_of > 0;
    nodes.labels = missing_labels(nodes.num_nodes(), {.classes = set_of, .sets = set_of > 0}).values;
  }

  YAML::Node choose_task(const YAML::Node& root) const {
    const std::vector<YAML::Node> tasks = document_.list(root, "tasks");
    std::vector<std::string> names;
    std::optional<YAML::Node> chosen;
    const std::string wanted = task_.empty() ? "node_classification" : task_;
    for (const YAML::Node& task : tasks) {
      document_.check_fields(task, kTask);
      names.push_back(document_.text(task, "name").value_or(""));
      if (names.back() == wanted && !chosen) chosen.emplace(task);
    }
    if (chosen) return *chosen;
    if (task_.empty() && names.size() == 1) return tasks[0];
    refuse(root["tasks"],
           task_.empty() ? std::string("no task 'node_classification'") : fmt::format("no task '{}'", task_),
           fmt::format("Choose with graphbolt:{},task=NAME; there are: {}.", folder_.string(),
                       fmt::join(names, ", ")));
  }

  void read_task(const YAML::Node& root) {
    if (root["tasks"].IsSequence() && root["tasks"].size() == 0) return;
    const YAML::Node task = choose_task(root);
    if (task["num_classes"]) num_classes_ = document_.require_number(task, "num_classes");
    read_set(task, "train_set", &Splits::train);
    read_set(task, "validation_set", &Splits::valid);
    read_set(task, "test_set", &Splits::test);
  }

  /// The nodes of a type with the number of classes that the task and their labels state.
  Graph with_classes(Graph nodes, Count set_of) const {
    nodes.num_classes = num_classes_;
    if (!nodes.multi_label) return nodes;
    if (num_classes_ != 0 && num_classes_ != set_of)
      throw InputError(fmt::format("{}: num_classes is {}, but the labels have {} columns",
                                   document_.path().string(), num_classes_, set_of),
                       "Correct the field.");
    nodes.num_classes = set_of;
    return nodes;
  }

  void read_set(const YAML::Node& task, const std::string& field, std::vector<NodeId> Splits::*split) {
    for (const YAML::Node& part : document_.list(task, field)) {
      document_.check_fields(part, kSet);
      const std::size_t type = type_of(part);
      const std::vector<NodeId> some = read_set_data(part, field, type);
      std::vector<NodeId>& nodes = about_[type].splits.*split;
      nodes.insert(nodes.end(), some.begin(), some.end());
    }
  }

  /// Entries are named `seeds` (in old versions `seed_nodes`) and `labels`, or come in this order without
  /// names.
  std::vector<NodeId> read_set_data(const YAML::Node& part, const std::string& field, std::size_t type) {
    const YAML::Node data = document_.require(part, "data");
    std::optional<YAML::Node> seeds, labels;
    std::size_t position = 0;
    for (const YAML::Node& entry : document_.list(part, "data")) {
      document_.check_fields(entry, kSetData);
      const std::string by_position = position == 0 ? "seeds" : position == 1 ? "labels" : "";
      const std::string name = document_.text(entry, "name").value_or(by_position);
      if (name == "seeds" || name == "seed_nodes") seeds.emplace(entry);
      if (is_label(name)) labels.emplace(entry);
      ++position;
    }
    if (!seeds) refuse(data, fmt::format("{} has no 'seeds'", field), "Name the array of node ids 'seeds'.");
    std::vector<NodeId> nodes = ids_of(array_of(*seeds));
    if (labels) take_labels(*labels, nodes, field, type);
    return nodes;
  }

  void take_labels(const YAML::Node& entry, const std::vector<NodeId>& nodes, const std::string& field,
                   std::size_t type) {
    Graph& about = about_[type];
    const NpyArray array = array_of(entry);
    const NodeLabels labels = labels_of(array);
    if (labels.rows != std::ssize(nodes))
      refuse(entry, fmt::format("{}: {} labels for {} seeds", field, labels.rows, nodes.size()),
             "Write one label per seed.");
    make_room(entry, type, labels.set_of);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i] < 0 || nodes[i] >= about.num_nodes())
        refuse(entry,
               fmt::format("{} holds node {}, but ids must be within [0, {})", field, nodes[i],
                           about.num_nodes()),
               "Correct the seeds; ids count from 0.");
      const auto words = static_cast<std::size_t>(labels.words());
      const std::span here(labels.values.data() + i * words, words);
      const std::span before(about.labels.data() + static_cast<std::size_t>(nodes[i]) * words, words);
      if (!is_known(here, labels.set_of)) continue;
      if (is_known(before, labels.set_of) && !std::ranges::equal(here, before))
        refuse(entry,
               fmt::format("{}: node {} has label {} here and {} elsewhere", field, nodes[i],
                           fmt::join(here, " "), fmt::join(before, " ")),
               "Correct the labels.");
      std::ranges::copy(here, before.begin());
    }
  }

  static bool is_known(std::span<const std::int32_t> label, Count set_of) {
    return set_of > 0 ? !is_unlabelled(label.data(), set_of) : label[0] >= 0;
  }

  const DatasetSource& source_;
  fs::path folder_;
  YamlDocument document_;
  std::string task_;
  ReadOptions options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  bool several_ = false;
  Count num_classes_ = 0;                             ///< that the task states; 0: none
  std::map<std::string, YAML::Node> weight_entries_;  ///< by relation
  std::optional<YAML::Node> misnamed_weight_;
  TypedParts parts_;
  std::vector<Graph> about_;   ///< features, labels and splits of each type
  std::vector<Count> set_of_;  ///< classes of a matrix of labels of each type
};

}  // namespace

Graph read_graphbolt(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return GraphboltReader(source, options, assembly).read();
}

}  // namespace strata::graph
