// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/graph/source.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Files about the nodes of a graph that lie elsewhere than its edges: .npy, or tables of text.
/// Each replaces what the dataset itself has; empty paths name none.
struct NodeFiles {
  std::filesystem::path features = {}, labels = {};
  LabelKind label_kind = LabelKind::classes;
  std::filesystem::path train = {}, valid = {}, test = {};  ///< ids, or masks (bool)

  bool any() const {
    return !(features.empty() && labels.empty() && train.empty() && valid.empty() && test.empty());
  }
};

/// Reads a dataset or makes a graph. docs/data.md describes every format, its files, their shapes and types.
///
/// A dataset that does not say whether its edges have a direction is taken as it is listed (ogb: as
/// undirected), with a warning; `undirected` is set if every edge has its opposite. Paths in metadata.yaml
/// that are absolute or contain ".." are refused unless `allow_outside_paths` is set. Lists of edges whose
/// ids are not the nodes' numbers give `node_names`.
///
/// A partition directory or a planted graph is put together again: by original ids, with features as they are
/// stored; of `options`, only normalize_features and the number of threads matter then.
///
/// Labels are one class per node, or a matrix of 0 and 1 with one column per class, which makes the graph
/// multi_label. A row that is all nan or all -1 has no label. Or they are targets of regression, a column or
/// more of numbers, of which nan are missing.
///
/// In graphs of several types, labels and splits are those of every type that has some, and `files` are about the
/// nodes of the only one.
///
/// f32 and f16 features of npy files are mapped, not copied. The result is the same for every number of
/// threads. Throws InputError with the file, the field or line, and the remedy: unknown key, empty files (an
/// array of shape (0,) and gzip of no text are sets without nodes), ids out of range, NaN features, labels
/// out of range, splits that overlap, edge weights that are negative or not finite, names that are not UTF-8.
/// Throws OutOfMemory, before work begins if that is known by then.
Graph read_graph(const Source& source, const ReadOptions& options = {}, const NodeFiles& files = {});

/// Names of tables of edges and nodes and of their columns. Empty: their usual names, see
/// docs/data.md.
struct TableNames {
  std::string edges = "edges", nodes = "nodes";
  std::string source = {}, target = {}, weight = {}, time = {};  ///< columns of the edges
  std::string id = {}, label = {}, split = {};                   ///< columns of the nodes
  std::vector<std::string> features = {};                        ///< the same
  bool operator==(const TableNames&) const = default;
};

/// Files of a graph that strata-partition did not write, and how to read them.
struct DatasetSource {
  enum class Format {
    ogb,
    graphbolt,
    npy,
    edge_list,
    metis,
    matrix_market,
    igb,
    igbh,
    dgl_chunked,
    parquet,
    n_triples,
    triples,
    synthetic_igbh
  };
  /// The kind of ids in a list of edges: the nodes' numbers, other integers, or any text.
  enum class Ids { number, sparse, string };

  Format format = Format::ogb;
  std::filesystem::path place;  ///< a folder or a file
  std::string choice = {};      ///< name of the split (ogb) or the task (graphbolt); empty: the only one
  std::optional<Count> weight_column = {};  ///< of the edge features (ogb) or of the list of edges
  std::optional<Count> nodes = {};          ///< number of nodes, where the files do not have it
  /// The file that `nodes` counts the rows of; empty: the user gave it. `spare_nodes` more may exist.
  std::string nodes_from = {};
  Count spare_nodes = 0;

  // These are for a list of edges. Columns count from 0, or have names in `tables`.
  std::optional<Count> source_column = {}, destination_column = {};
  Ids ids = Ids::number;
  std::string separator = {};  ///< " ": any run of blanks; empty: found in the first line
  std::optional<Count> time_column = {};
  /// Bounds of the time column; edges of another time are left out.
  double since = -std::numeric_limits<double>::infinity(), until = std::numeric_limits<double>::infinity();
  std::optional<bool> header = {};  ///< whether a line names the columns; none: found in the first line

  Count classes = 19;          ///< igb: which of its two sets of labels, 19 or 2983
  bool ignore_values = false;  ///< matrix_market: entries are edges without weights
  TableNames tables = {};      ///< parquet, edge_list, n_triples

  // These are for graphs of several types.
  std::string target = {};  ///< the type whose labels and splits are read; empty: the only one that has some
  bool reverse = false;     ///< whether every relation gets another one in the other direction
  bool literals = false;    ///< n_triples: whether literals are nodes
  std::filesystem::path train = {}, valid = {}, test = {};  ///< n_triples: tables of labeled nodes

  // These are for synthetic_igbh.
  double scale = 0.01;  ///< the share of IGBH-Full's nodes and edges
  Count cols = 1024;    ///< of the features
  DType dtype = DType::f16;
  std::uint64_t seed = 0;
};

/// The forms in which a user names the sources that read_graph() takes:
/// "ogb:DIR[,split=NAME][,weight=COLUMN]".
std::vector<std::string> dataset_forms();

/// The sources that this folder or file may have been meant to be, such as "ogb:DIR"; empty if it does not
/// look like a dataset.
std::string dataset_hint(const std::filesystem::path& path);

/// The state of an input's files at one moment, for noticing changes while it is read: which ones,
/// how large and how old, also behind links.
class InputStamp {
 public:
  /// Looks at the files that the input's format names, at `files`, and at a file that says which part each
  /// node is in. Whatever else lies in the input's folder may change, such as a log. Generated graphs have no
  /// files of their own.
  explicit InputStamp(const Source& source, const NodeFiles& files = {},
                      const std::filesystem::path& parts_file = {});

  /// Throws InputError naming a file that changed or went since. Calls refuse_truncated_inputs().
  void require_unchanged() const;

 private:
  struct Stamp {
    std::uintmax_t device = 0, file = 0;  ///< where links lead, and what a file of the same name replaced
    std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  static std::optional<Stamp> look(const std::filesystem::path& file);  ///< nothing if there is none
  void add(const std::filesystem::path& file);

  std::map<std::filesystem::path, Stamp> stamps_;
};

/// Throws InputError once if an array of an input got shorter since it was mapped, which then reads as zeros.
void refuse_truncated_inputs();

/// A graph as arrays in host memory, by the names of npy: folders (docs/data.md). An array without data is
/// absent; `origin` names it in messages.
struct GraphArrays {
  std::string name = "arrays";
  NpyArray edge_index;   ///< (2, E) integers: sources, then destinations
  NpyArray edge_weight;  ///< (E,)
  NpyArray x;  ///< (N, columns); f32 and f16 in C order stay where they are, and `keep_alive` is held
  NpyArray y;  ///< (N,) classes, or (N, classes) of 0 and 1
  NpyArray train, valid, test;     ///< ids, or masks (N,) of bool
  std::optional<Count> num_nodes;  ///< unset: the rows of `x` or `y`, or the largest id + 1
};

/// A graph of several types in memory. An array without data is absent.
struct TypedArrays {
  struct Nodes {
    std::string type;
    Count count = 0;
  };
  struct Edges {
    EdgeType type;
    NpyArray edge_index;   ///< (2, E) integers: sources, then destinations, each counted within its type
    NpyArray edge_weight;  ///< (E,), or absent: 1 where another relation has weights
  };
  std::string name = "arrays";
  std::vector<Nodes> nodes;
  std::vector<Edges> edges;
  /// Features of all nodes, type after type, or absent; as GraphArrays::x. Narrower rows end with zeros.
  NpyArray x;
  std::vector<Count> feature_cols;  ///< GraphTypes::feature_cols
  NpyArray y;                       ///< as GraphArrays has them, of all nodes: type after type
  NpyArray train, valid, test;
};

/// Puts a graph together: relation r has the edges of edges[r], of which edge e has the id
/// edge_offsets[r] + e. Duplicates and self-loops stay. Throws InputError and OutOfMemory.
Graph graph_from_typed_arrays(const TypedArrays& arrays, int num_threads);

/// Puts the graph together as read_graph() does a npy: folder, with the same checks. Edge e of `edge_index`
/// has the id e. Throws InputError and OutOfMemory.
Graph graph_from_arrays(const GraphArrays& arrays, const ReadOptions& options);

}  // namespace strata::graph
