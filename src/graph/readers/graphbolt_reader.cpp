// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/dataset_path.hpp"
#include "readers/edge_weights.hpp"
#include "readers/text/edge_buffer.hpp"
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
const KnownFields kNodes{.owner = "an entry of 'nodes'", .used = {"num"}, .unused = {"type"}};
const KnownFields kEdges{.owner = "an entry of 'edges'", .used = {"format", "path"}, .unused = {"type"}};
const KnownFields kFeature{.owner = "an entry of 'feature_data'",
                           .used = {"domain", "name", "format", "path"},
                           .unused = {"type", "in_memory"}};
const KnownFields kTask{.owner = "a task",
                        .used = {"name", "num_classes", "train_set", "validation_set", "test_set"}};
const KnownFields kSet{.owner = "an entry of a set", .used = {"data"}, .unused = {"type"}};
const KnownFields kSetData{
    .owner = "an array of a set", .used = {"name", "format", "path"}, .unused = {"in_memory"}};

class GraphboltReader {
 public:
  GraphboltReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : folder_(source.place),
        document_(folder_ / "metadata.yaml"),
        task_(source.choice),
        options_(options),
        pool_(assembly.pool),
        assembly_(assembly) {}

  Graph read() {
    read_root(document_.root());
    take_classes_of_sets();
    return std::move(graph_);
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
    graph_.name =
        document_.text(root, "dataset_name").value_or(fs::weakly_canonical(folder_).filename().string());
    const YAML::Node structure = document_.require(root, "graph");
    document_.check_fields(structure, kGraph);
    const YAML::Node nodes = document_.require_only(structure, "nodes");
    document_.check_fields(nodes, kNodes);
    num_nodes_ = document_.require_number(nodes, "num");
    for (const YAML::Node& holder : {structure, root}) find_edge_weights(holder);
    refuse_misnamed_weight();
    read_edges(document_.require_only(structure, "edges"));
    read_features(root);
    if (root["tasks"]) read_task(root);
  }

  void read_edges(const YAML::Node& entry) {
    document_.check_fields(entry, kEdges);
    const DataFile file = file_of(entry);
    if (file.format == "csv") {
      EdgeBuffer edges = read_csv_edges(file.path, {}, pool_, assembly_.scratch);
      build(edges.list());
    } else {
      const EdgeArray edges = edges_of(read_npy(file.path), assembly_.scratch);
      build(edges.list);
    }
  }

  /// Builds the lists of edges as listed, because GraphBolt lists both directions of undirected edges.
  void build(EdgeList edges) {
    std::optional<EdgeWeights> weights;
    if (weight_entry_) weights.emplace(read_edge_weights(*weight_entry_, edges));
    build_structure(graph_, num_nodes_, edges, options_,
                    options_.direction == ReadOptions::Direction::undirected, assembly_);
  }

  EdgeWeights read_edge_weights(const YAML::Node& entry, EdgeList& edges) {
    const NpyArray array = array_of(entry);
    EdgeWeights weights = edge_weights_of(array, assembly_.scratch);
    if (weights.size() != edges.count)
      refuse(entry, fmt::format("{} weights for {} edges", weights.size(), edges.count),
             "Write one weight per edge, in the order of the edges.");
    weights.give_to(edges, array.origin);
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
      if (weight_entry_) refuse(entry, "a second weight of edges", "Name one feature of the edges 'weight'.");
      weight_entry_.emplace(entry);
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
    if (!weight_entry_)
      refuse(*misnamed_weight_, fmt::format("edge feature '{}' is not read", name),
             "Did you mean 'weight'? Edges are sampled by a feature of this name; remove the entry if it is "
             "none.");
    document_.warn(*misnamed_weight_, fmt::format("edge feature '{}' is not read; only 'weight' is", name));
  }

  static bool is_label(const std::string& name) { return name == "label" || name == "labels"; }

  /// Reads the node feature called `feat` if there are several; one called `label` holds labels of all nodes.
  void read_features(const YAML::Node& root) {
    std::vector<std::string> names;
    std::optional<YAML::Node> chosen;
    for (const YAML::Node& entry : document_.list(root, "feature_data")) {
      if (document_.require_text(entry, "domain") != "node") continue;
      const std::string name = document_.require_text(entry, "name");
      if (is_label(name)) {
        read_all_labels(entry);
        continue;
      }
      names.push_back(name);
      if (name == "feat" || names.size() == 1) chosen.emplace(entry);
    }
    if (!chosen) return;
    if (names.size() > 1 && document_.require_text(*chosen, "name") != "feat")
      refuse(*chosen,
             fmt::format("several node features: {}", printable(fmt::format("{}", fmt::join(names, ", ")))),
             "Name the one to train on 'feat'.");
    if (names.size() > 1)
      document_.warn(*chosen, fmt::format("of the node features {}, only 'feat' is read",
                                          printable(fmt::format("{}", fmt::join(names, ", ")))));
    graph_.features = features_of(array_of(*chosen), num_nodes_, pool_, assembly_.scratch);
  }

  void read_all_labels(const YAML::Node& entry) {
    NodeLabels labels = labels_of(array_of(entry));
    if (labels.rows != num_nodes_)
      refuse(entry, fmt::format("{} labels for {} nodes", labels.rows, num_nodes_),
             "Write one label per node; -1 stands for a missing one.");
    make_room(entry, labels.set_of);
    graph_.labels = std::move(labels.values);
  }

  /// Makes missing labels for all nodes. All arrays of labels must be of the same kind.
  void make_room(const YAML::Node& entry, Count set_of) {
    if (!graph_.labels.empty()) {
      if (graph_.multi_label ? set_of == set_of_ : set_of == 0) return;
      refuse(entry, "labels of other shape than before",
             "Give all labels as one class, or all as a row of 0 and 1.");
    }
    set_of_ = set_of;
    graph_.multi_label = set_of > 0;
    graph_.labels = missing_labels(num_nodes_, set_of).values;
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
    if (task["num_classes"]) graph_.num_classes = document_.require_number(task, "num_classes");
    graph_.splits = {.train = read_set(task, "train_set"),
                     .valid = read_set(task, "validation_set"),
                     .test = read_set(task, "test_set")};
  }

  void take_classes_of_sets() {
    if (!graph_.multi_label) return;
    if (graph_.num_classes != 0 && graph_.num_classes != set_of_)
      throw InputError(fmt::format("{}: num_classes is {}, but the labels have {} columns",
                                   document_.path().string(), graph_.num_classes, set_of_),
                       "Correct the field.");
    graph_.num_classes = set_of_;
  }

  std::vector<NodeId> read_set(const YAML::Node& task, const std::string& field) {
    std::vector<NodeId> nodes;
    for (const YAML::Node& part : document_.list(task, field)) {
      document_.check_fields(part, kSet);
      const std::vector<NodeId> some = read_set_data(part, field);
      nodes.insert(nodes.end(), some.begin(), some.end());
    }
    return nodes;
  }

  /// Entries are named `seeds` (in old versions `seed_nodes`) and `labels`, or come in this order without
  /// names.
  std::vector<NodeId> read_set_data(const YAML::Node& part, const std::string& field) {
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
    if (labels) take_labels(*labels, nodes, field);
    return nodes;
  }

  void take_labels(const YAML::Node& entry, const std::vector<NodeId>& nodes, const std::string& field) {
    const NpyArray array = array_of(entry);
    const NodeLabels labels = labels_of(array);
    if (labels.rows != std::ssize(nodes))
      refuse(entry, fmt::format("{}: {} labels for {} seeds", field, labels.rows, nodes.size()),
             "Write one label per seed.");
    make_room(entry, labels.set_of);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i] < 0 || nodes[i] >= num_nodes_)
        refuse(entry,
               fmt::format("{} holds node {}, but ids must be within [0, {})", field, nodes[i], num_nodes_),
               "Correct the seeds; ids count from 0.");
      const auto words = static_cast<std::size_t>(labels.words());
      const std::span here(labels.values.data() + i * words, words);
      const std::span before(graph_.labels.data() + static_cast<std::size_t>(nodes[i]) * words, words);
      if (!is_known(here)) continue;
      if (is_known(before) && !std::ranges::equal(here, before))
        refuse(entry,
               fmt::format("{}: node {} has label {} here and {} elsewhere", field, nodes[i],
                           fmt::join(here, " "), fmt::join(before, " ")),
               "Correct the labels.");
      std::ranges::copy(here, before.begin());
    }
  }

  bool is_known(std::span<const std::int32_t> label) const {
    return set_of_ > 0 ? !is_unlabelled(label.data(), set_of_) : label[0] >= 0;
  }

  fs::path folder_;
  YamlDocument document_;
  std::string task_;
  ReadOptions options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  Count num_nodes_ = 0;
  Count set_of_ = 0;  ///< classes of a matrix of labels
  std::optional<YAML::Node> weight_entry_, misnamed_weight_;
  Graph graph_;
};

}  // namespace

Graph read_graphbolt(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return GraphboltReader(source, options, assembly).read();
}

}  // namespace strata::graph
