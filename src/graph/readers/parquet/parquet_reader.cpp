// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"
#include "readers/parquet/parquet_table.hpp"
#include "readers/parquet/table_roles.hpp"
#include "readers/text/edge_buffer.hpp"
#include "readers/text/node_numbering.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using As = ParquetWish::As;
using Kind = ParquetColumn::Kind;

constexpr Count kValuesAtOnce = Count{1} << 17;

/// Ids of nodes are text, or integers.
ParquetWish wish_for_ids(const ParquetTable& table, int column) {
  const bool words = table.columns()[at(column)].kind == Kind::text;
  return {.column = column, .as = words ? As::words : As::integers};
}

void log_roles(const ParquetTable& table, const TableRoles& roles) {
  spdlog::info("{}: {}", table.origin(), fmt::join(roles.notes, ", "));
  if (!roles.unread.empty()) spdlog::warn("{}: not read: {}", table.origin(), fmt::join(roles.unread, ", "));
}

class ParquetReader {
 public:
  ParquetReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source), options_(options), assembly_(assembly) {}

  Graph read() {
    open_tables();
    graph_.name = fs::weakly_canonical(source_.place).filename().string();
    if (node_roles_.id >= 0) read_ids();
    read_edges();
    if (!nodes_) return std::move(graph_);
    if (!node_roles_.features.empty()) read_features();
    if (node_roles_.label >= 0) read_labels();
    if (node_roles_.split >= 0) read_splits();
    return std::move(graph_);
  }

 private:
  void open_tables() {
    const TableNames& names = source_.tables;
    std::vector<fs::path> edges = table_files(source_.place, names.edges);
    if (edges.empty())
      throw InputError(fmt::format("{0}: neither {1}.parquet nor {1}-*.parquet nor {1}/*.parquet in it",
                                   source_.place.string(), names.edges),
                       "Give the folder that holds the table of edges; edge-table= sets its name.");
    edges_.emplace(std::move(edges));
    edge_roles_ = roles_of_edges(*edges_, names);
    log_roles(*edges_, edge_roles_);
    std::vector<fs::path> nodes = table_files(source_.place, names.nodes);
    if (nodes.empty()) return refuse_names_without_nodes();
    nodes_.emplace(std::move(nodes));
    node_roles_ = roles_of_nodes(*nodes_, names);
    log_roles(*nodes_, node_roles_);
    if (source_.nodes && *source_.nodes != nodes_->rows())
      throw InputError(
          fmt::format("{}: {} rows, but nodes={}", nodes_->origin(), nodes_->rows(), *source_.nodes),
          "Leave nodes= out: the table has a row per node.");
  }

  void refuse_names_without_nodes() const {
    const TableNames& names = source_.tables;
    if (names.id.empty() && names.label.empty() && names.split.empty() && names.features.empty()) return;
    throw InputError(
        fmt::format("{}: no table '{}', but columns of it are named", source_.place.string(), names.nodes),
        "node-table= sets its name.");
  }

  const std::string& name_of(const ParquetTable& table, int column) const {
    return table.columns()[at(column)].name;
  }

  /// Refuses rows of a piece that have no value.
  static void refuse_missing(const TablePiece& piece, std::size_t index, const std::string& column) {
    const std::vector<Count>& missing = piece.columns[index].missing;
    if (missing.empty()) return;
    throw InputError(fmt::format("{}: no value", piece.place(missing[0], column)),
                     "Fill it in, or leave the row out.");
  }

  /// The ids of nodes; a node's number is its row.
  void read_ids() {
    const std::string& name = name_of(*nodes_, node_roles_.id);
    nodes_->read({wish_for_ids(*nodes_, node_roles_.id)}, kValuesAtOnce, [&](const TablePiece& piece) {
      refuse_missing(piece, 0, name);
      const ParquetPiece& ids = piece.columns[0];
      for (const std::int64_t id : ids.integers) number(id, piece, name);
      for (const std::string_view word : ids.words) {
        refuse_bad_name(word, piece, name);
        number(word, piece, name);
      }
      numbering_.require_room(
          assembly_.scratch, nodes_->origin(),
          "Give more --memory, or number the nodes from 0 and leave the column of ids out.");
    });
    graph_.node_names = numbering_.names();
  }

  template <typename Id>
  void number(Id id, const TablePiece& piece, const std::string& column) {
    const Count known = numbering_.size();
    if (const NodeId number = numbering_.number_of(id); number < known)
      throw InputError(fmt::format("{}: the id {} again, which node {} has",
                                   piece.place(known - piece.first_row, column), shown(id), number),
                       "Write a row per node.");
  }

  /// Refuses a name that cannot be written: names take one line each.
  void refuse_bad_name(std::string_view word, const TablePiece& piece, const std::string& column) const {
    const std::string place = piece.place(numbering_.size() - piece.first_row, column);
    require_utf8(word, place);
    if (word.empty() || word.find('\n') != word.npos)
      throw InputError(fmt::format("{}: '{}' is no name of a node", place, printable(word)),
                       "Names are text without line breaks, and not empty.");
  }

  static std::string shown(std::int64_t id) { return std::to_string(id); }
  static std::string shown(std::string_view word) {
    return fmt::format("'{}'", printable(word.substr(0, 40)));
  }

  void read_edges() {
    require_ids_alike();
    const std::vector<int> ends{edge_roles_.source, edge_roles_.target};
    std::vector<ParquetWish> wishes{wish_for_ids(*edges_, ends[0]), wish_for_ids(*edges_, ends[1])};
    const bool weighted = edge_roles_.weight >= 0;
    if (weighted) wishes.push_back({.column = edge_roles_.weight, .as = As::floats});
    EdgeBuffer edges(edges_->origin(), assembly_.scratch);
    EdgeWeights weights(assembly_.scratch);
    std::vector<NodeId> pairs;
    edges_->read(wishes, kValuesAtOnce, [&](const TablePiece& piece) {
      pairs.resize(2 * at(piece.rows()));
      for (std::size_t end = 0; end < 2; ++end) take_ends(piece, end, name_of(*edges_, ends[end]), pairs);
      edges.append(pairs, piece.share_read);
      if (weighted) weights.append(checked_weights(piece));
    });
    numbering_ = {};
    const Count nodes =
        nodes_ ? nodes_->rows()
               : edges.count_nodes(source_,
                                   "Write a table of nodes with a column id, or say nodes=N if all these "
                                   "nodes exist.");
    EdgeList list = edges.list();
    if (weighted) weights.give_to(list, edges_->origin());
    build_structure(graph_, nodes, list, options_, options_.direction == ReadOptions::Direction::undirected,
                    assembly_);
  }

  /// Ids of edges are what the nodes' table has as ids: integers or text. Without it they are numbers.
  void require_ids_alike() const {
    const bool words = node_roles_.id >= 0 && wish_for_ids(*nodes_, node_roles_.id).as == As::words;
    for (const int column : {edge_roles_.source, edge_roles_.target}) {
      if ((wish_for_ids(*edges_, column).as == As::words) == words) continue;
      throw InputError(
          fmt::format("{}: column '{}' is of type {}, but {}", edges_->origin(),
                      printable(name_of(*edges_, column)), edges_->columns()[at(column)].type,
                      words ? fmt::format("the ids in {} are text", nodes_->origin())
                            : std::string(node_roles_.id >= 0 ? "the ids of the nodes are integers"
                                                              : "no table of nodes has such ids")),
          "Ids that are not the numbers 0 to N - 1 are looked up in the column id of the table of nodes: "
          "write both with one type.");
    }
  }

  /// Puts the sources or the targets into the pairs.
  void take_ends(const TablePiece& piece, std::size_t end, const std::string& column,
                 std::vector<NodeId>& pairs) const {
    refuse_missing(piece, end, column);
    const ParquetPiece& ids = piece.columns[end];
    const auto take = [&](const auto& values) {
      for (std::size_t row = 0; row < values.size(); ++row)
        pairs[2 * row + end] = node_of(values[row], piece, static_cast<Count>(row), column);
    };
    take(ids.integers);
    take(ids.words);
  }

  template <typename Id>
  NodeId node_of(Id id, const TablePiece& piece, Count row, const std::string& column) const {
    if (node_roles_.id >= 0) {
      if (const auto found = numbering_.find(id)) return *found;
      throw InputError(fmt::format("{}: {} is no id of a node", piece.place(row, column), shown(id)),
                       fmt::format("{} needs a row for it.", nodes_->origin()));
    }
    if constexpr (std::is_same_v<Id, std::int64_t>) {
      if (id >= 0 && (!nodes_ || id < nodes_->rows())) return id;
      throw InputError(fmt::format("{}: id {}, but ids must be within [0, {})", piece.place(row, column), id,
                                   nodes_ ? std::to_string(nodes_->rows()) : "number of nodes"),
                       "Without a column id of the nodes' table, ids are the numbers of its rows, from 0.");
    }
    throw Error("text without ids of nodes");  // require_ids_alike() refuses it
  }

  const std::vector<float>& checked_weights(const TablePiece& piece) const {
    const std::string& column = name_of(*edges_, edge_roles_.weight);
    const std::vector<float>& weights = piece.columns[2].floats;
    refuse_missing(piece, 2, column);
    const auto bad = std::ranges::find_if_not(weights, is_edge_weight);
    if (bad == weights.end()) return weights;
    throw InputError(fmt::format("{}: weight {} is negative or not finite",
                                 piece.place(bad - weights.begin(), column), *bad),
                     "Weights are finite numbers from 0; an edge of weight 0 is never sampled.");
  }

  void read_features() {
    std::vector<ParquetWish> wishes;
    Count cols = 0;
    for (const int column : node_roles_.features) {
      wishes.push_back({.column = column, .as = As::floats, .width = nodes_->width(column)});
      cols += wishes.back().width;
    }
    const FeatureMemory memory = allocate_features(nodes_->rows(), cols, DType::f32, assembly_.scratch);
    nodes_->read(wishes, kValuesAtOnce, [&](const TablePiece& piece) {
      float* out = reinterpret_cast<float*>(memory.bytes) + piece.first_row * cols;
      for (std::size_t i = 0; i < wishes.size(); out += wishes[i++].width)
        copy_features(piece, i, wishes[i], out, cols);
      if (assembly_.scratch != nullptr) assembly_.scratch->trim();
    });
    graph_.features = memory.table;
  }

  /// Copies a column to rows that are `stride` apart.
  void copy_features(const TablePiece& piece, std::size_t index, const ParquetWish& wish, float* out,
                     Count stride) const {
    const std::string& column = name_of(*nodes_, wish.column);
    refuse_missing(piece, index, column);
    const float* values = piece.columns[index].floats.data();
    for (Count row = 0; row < piece.rows(); ++row, values += wish.width) {
      std::copy_n(values, wish.width, out + row * stride);
      if (const float* const bad =
              std::find_if_not(values, values + wish.width, [](float value) { return std::isfinite(value); });
          bad != values + wish.width)
        throw InputError(fmt::format("{}: feature {}", piece.place(row, column), *bad),
                         "Features must be finite; replace missing values first, by 0 or a mean.");
    }
  }

  void read_labels() {
    const std::string& column = name_of(*nodes_, node_roles_.label);
    const ParquetWish wish{
        .column = node_roles_.label, .as = As::doubles, .width = nodes_->width(node_roles_.label)};
    graph_.multi_label = wish.width > 1;
    graph_.num_classes = graph_.multi_label ? wish.width : 0;
    nodes_->read({wish}, kValuesAtOnce, [&](const TablePiece& piece) {
      const std::string origin = fmt::format("{}: row group {}, column '{}'", piece.file.string(),
                                             piece.row_group, printable(column));
      const NodeLabels labels = labels_of(
          {.values = piece.columns[0].doubles, .cols = wish.width, .first_row = piece.first_of_group},
          origin);
      graph_.labels.insert(graph_.labels.end(), labels.values.begin(), labels.values.end());
    });
  }

  void read_splits() {
    const std::string& column = name_of(*nodes_, node_roles_.split);
    Splits& splits = graph_.splits;
    const std::map<std::string, std::vector<NodeId>*> known{
        {"train", &splits.train}, {"valid", &splits.valid},
        {"val", &splits.valid},   {"validation", &splits.valid},
        {"test", &splits.test},   {"", nullptr},
        {"none", nullptr}};
    nodes_->read(
        {{.column = node_roles_.split, .as = As::words}}, kValuesAtOnce, [&](const TablePiece& piece) {
          for (Count row = 0; row < piece.rows(); ++row) {
            std::string word(piece.columns[0].words[at(row)]);
            std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
            const auto split = known.find(word);
            if (split == known.end())
              throw InputError(fmt::format("{}: split '{}' is not known", piece.place(row, column),
                                           printable(word.substr(0, 40))),
                               "Known are train, valid (or val, validation), test, and none or no value.");
            if (split->second != nullptr) split->second->push_back(piece.first_row + row);
          }
        });
  }

  const DatasetSource& source_;
  const ReadOptions& options_;
  Assembly& assembly_;
  std::optional<ParquetTable> edges_, nodes_;
  EdgeRoles edge_roles_;
  NodeRoles node_roles_;
  NodeNumbering numbering_;
  Graph graph_;
};

}  // namespace

Graph read_parquet(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return ParquetReader(source, options, assembly).read();
}

}  // namespace strata::graph
