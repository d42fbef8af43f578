// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "readers/column_names.hpp"
#include "readers/text/edge_comments.hpp"
#include "readers/text/edge_text_reader.hpp"
#include "readers/text/node_numbering.hpp"
#include "readers/text/table_layout.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

using Ids = DatasetSource::Ids;
using Direction = ReadOptions::Direction;

/// The columns that are read, counted from 0; -1: there is none.
struct Columns {
  Count source = 0, target = 1, weight = -1, time = -1;

  Count last() const { return std::max({source, target, weight, time}); }
};

/// The range of times of the edges that were read.
struct Times {
  double first = std::numeric_limits<double>::infinity(), last = -std::numeric_limits<double>::infinity();
  Count left_out = 0;

  void add(const Times& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
    left_out += other.left_out;
  }
};

/// The edges of a block.
struct EdgesPiece {
  std::vector<NodeId> pairs;
  std::vector<std::string> words;  ///< instead of pairs, for ids=string
  std::vector<float> weights;
  Times times;
  Count self_loops = 0;
};

class EdgeListReader : private EdgeTextReader {
 public:
  EdgeListReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : EdgeTextReader(source, options, assembly), comments_(path_) {}

  Graph read() {
    find_layout();
    read_lines<EdgesPiece>(
        layout_.first_line, [](std::string_view line) { return is_comment(line, kCommentMarks); },
        [this](std::string_view line, const Place& place, EdgesPiece& piece) { parse(line, place, piece); },
        [this](EdgesPiece& piece, double share_read) { take(piece, share_read); });
    comments_.check_edges(edges_.size() + times_.left_out, self_loops_);
    if (columns_.time >= 0) log_times();
    number_nodes();
    Graph graph;
    graph.name = std::filesystem::path(path_).stem().string();
    graph.node_names = std::move(names_);
    const Count nodes = count_nodes();
    EdgeList edges = edges_.list();
    if (columns_.weight >= 0) weights_.give_to(edges, path_);
    build_structure(graph, nodes, edges, options_, is_undirected(), assembly_);
    if (options_.direction == Direction::automatic && !comments_.undirected() && !graph.undirected)
      spdlog::warn(
          "{}: a list of edges does not say whether they have a direction: each is taken from its first node "
          "to its second. --direction undirected adds the other direction, --direction directed says so",
          path_);
    return graph;
  }

 private:
  /// Reads the separator, the names of columns and the comments from the first lines.
  void find_layout() {
    LineBlocks blocks(source_.place);
    Block block;
    const TableRules rules{.separator = source_.separator,
                           .are_names = [this](const auto& fields) { return has_header(fields); },
                           .note_comment = [this](std::string_view line) { comments_.note(line); },
                           .skip_blank_lines = true};
    while (layout_.cols == 0 && blocks.next(block)) layout_ = layout_of(block, path_, rules);
    if (source_.header && !*source_.header) layout_.names.clear();
    if (layout_.cols > 0) choose_columns();
  }

  /// Whether the fields name columns. Names of nodes look alike, so only usual names of columns count.
  bool has_header(const std::vector<std::string>& fields) const {
    if (source_.header) return *source_.header;
    if (find_column(fields, ColumnRole::source) >= 0 && find_column(fields, ColumnRole::target) >= 0)
      return true;
    if (source_.ids == Ids::string) return false;
    const auto may_be_name = [&](std::optional<Count> column, std::size_t usual) {
      const std::size_t at = column ? static_cast<std::size_t>(*column) : usual;
      return at < fields.size() && !is_number(fields[at]);
    };
    return may_be_name(source_.source_column, 0) && may_be_name(source_.destination_column, 1) &&
           std::ranges::any_of(fields, [](const auto& field) { return !is_missing(field); });
  }

  void choose_columns() {
    const TableNames& names = source_.tables;
    const auto asked = [&](std::optional<Count> column, const std::string& name, const char* option) {
      if (!name.empty()) return require_column(layout_.names, name, option, path_);
      return column ? static_cast<int>(std::min<Count>(*column, std::numeric_limits<int>::max())) : -1;
    };
    const EdgeEnds given{.source = asked(source_.source_column, names.source, "source"),
                         .target = asked(source_.destination_column, names.target, "target")};
    const EdgeEnds ends = ends_of_edges(given, layout_.names, path_);
    if (ends.source == ends.target)
      throw InputError(
          fmt::format("{}: source={} and target={} are one column", path_, ends.source, ends.target),
          "Give two columns; they count from 0.");
    columns_ = {.source = ends.source,
                .target = ends.target,
                .weight = asked(source_.weight_column, names.weight, "weight"),
                .time = asked(source_.time_column, names.time, "time")};
    const int weight = find_column(layout_.names, ColumnRole::weight);
    if (columns_.weight < 0 && weight != ends.source && weight != ends.target && weight != columns_.time)
      columns_.weight = weight;
    log_columns();
  }

  /// Logs what columns are taken for, and warns of those that are not read.
  void log_columns() const {
    const auto name_of = [&](Count column) {
      return column < std::ssize(layout_.names)
                 ? fmt::format("'{}'", printable(layout_.names[static_cast<std::size_t>(column)]))
                 : fmt::format("column {}", column);
    };
    std::vector<std::string> unread;
    for (Count column = 0; column < layout_.cols; ++column)
      if (column != columns_.source && column != columns_.target && column != columns_.weight &&
          column != columns_.time)
        unread.push_back(name_of(column));
    constexpr std::size_t kMostNames = 8;
    if (unread.size() > kMostNames) {
      unread[kMostNames - 1] = fmt::format("{} more", unread.size() - (kMostNames - 1));
      unread.resize(kMostNames);
    }
    std::string taken =
        fmt::format("sources from {}, targets from {}", name_of(columns_.source), name_of(columns_.target));
    if (columns_.weight >= 0) taken += fmt::format(", weights from {}", name_of(columns_.weight));
    if (columns_.time >= 0) taken += fmt::format(", times from {}", name_of(columns_.time));
    const bool usual = find_column(layout_.names, ColumnRole::source) == columns_.source &&
                       find_column(layout_.names, ColumnRole::target) == columns_.target;
    if (!layout_.names.empty() && !usual && !source_.header && source_.tables.source.empty())
      spdlog::warn("{}: its first line is taken for names of columns: {}", path_, taken);
    else if (!layout_.names.empty())
      spdlog::info("{}: {}", path_, taken);
    if (!unread.empty())
      spdlog::warn("{}: not read: {}; weight=COLUMN and time=COLUMN read weights and times of edges", path_,
                   fmt::join(unread, ", "));
  }

  void parse(std::string_view line, const Place& place, EdgesPiece& piece) const {
    FieldsOfLine fields(line, layout_.separator, place);
    std::optional<std::string_view> source, destination, weight, time;
    Count column = 0;
    for (std::optional<std::string_view> field; (field = fields.next()); ++column) {
      if (column == columns_.source) source = field;
      if (column == columns_.target) destination = field;
      if (column == columns_.weight) weight = field;
      if (column == columns_.time) time = field;
    }
    if (column <= columns_.last())
      place.refuse(fmt::format("{}, but column {} is wanted, counted from 0", counted(column, "column"),
                               columns_.last()),
                   "See separator=, source=, target=, weight= and time= in docs/data.md.");
    if (column != layout_.cols)
      place.refuse(
          fmt::format("{}, but the first line has {}", counted(column, "column"), layout_.cols),
          "All lines have as many. Write lists of neighbors as a line per edge, and text that holds the "
          "separator in double quotes.");
    piece.self_loops += *source == *destination;
    if (time && !is_of_its_time(*time, place, piece.times)) return;
    take_ids(*source, *destination, place, piece);
    if (weight) take_weight(*weight, place, piece);
  }

  void take_ids(std::string_view source, std::string_view destination, const Place& place,
                EdgesPiece& piece) const {
    for (const std::string_view id : {source, destination}) {
      if (source_.ids == Ids::string) {
        place.require_utf8(id);
        if (id.empty()) place.refuse("an empty name of a node");
        piece.words.emplace_back(id);
        continue;
      }
      piece.pairs.push_back(number_of<NodeId>(
          id, place, "id",
          source_.ids == Ids::sparse ? "ids=sparse takes integers of 64 bits; give ids=string for any text."
                                     : "Correct the line; ids=string takes any text as ids."));
      if (source_.ids == Ids::number && piece.pairs.back() < 0)
        place.refuse(fmt::format("id {} is negative", id), "Give ids=sparse, which numbers the nodes anew.");
    }
  }

  /// Whether an edge is one of those that since= and until= ask for.
  bool is_of_its_time(std::string_view field, const Place& place, Times& times) const {
    const auto time = number_of<double>(field, place, "time",
                                        "Times are numbers, such as seconds; write dates as numbers.");
    if (!std::isfinite(time)) place.refuse(fmt::format("time {} is not finite", field), "Times are numbers.");
    const bool wanted = time >= source_.since && time < source_.until;
    times.add({.first = time, .last = time, .left_out = !wanted});
    return wanted;
  }

  static void take_weight(std::string_view field, const Place& place, EdgesPiece& piece) {
    const auto weight = number_of<float>(field, place, "weight");
    if (!is_edge_weight(weight))
      place.refuse(fmt::format("weight {} is negative or not finite", field),
                   "Weights are finite numbers from 0; an edge of weight 0 is never sampled.");
    piece.weights.push_back(weight);
  }

  void take(EdgesPiece& piece, double share_read) {
    if (source_.ids == Ids::sparse)
      for (NodeId& id : piece.pairs) id = numbering_.number_of(id);
    for (const std::string& word : piece.words) piece.pairs.push_back(numbering_.number_of(word));
    numbering_.require_room(assembly_.scratch, path_,
                            "Give more --memory, or number the nodes and give ids=number.");
    edges_.append(piece.pairs, share_read);
    weights_.append(piece.weights);
    times_.add(piece.times);
    self_loops_ += piece.self_loops;
  }

  void log_times() const {
    if (edges_.size() + times_.left_out == 0) return;
    const std::string range = fmt::format("times from {} to {}", times_.first, times_.last);
    if (edges_.size() == 0)
      throw InputError(fmt::format("{}: {}, and no edge from since= on, to before until=", path_, range),
                       "Correct since= and until=; they have the unit of the column of times.");
    spdlog::info("{}: {}; {} of {} edges are taken", path_, range, format_count(edges_.size()),
                 format_count(edges_.size() + times_.left_out));
  }

  void number_nodes() {
    if (source_.ids == Ids::number) return;
    NodeNumbering::Order order = numbering_.order();
    edges_.renumber(order.place, assembly_.pool);
    num_named_ = std::ssize(order.place);
    names_ = std::move(order.names);
    numbering_ = {};
  }

  Count count_nodes() const {
    const bool numbers = source_.ids == Ids::number, all = times_.left_out == 0;
    if (!numbers) {
      if (all) comments_.check_nodes(num_named_, true);
      return num_named_;
    }
    Count nodes = edges_.count_nodes(
        source_,
        "Give ids=sparse, which numbers the nodes anew and writes a file of their ids; or say "
        "nodes=N if all these nodes exist.");
    if (!source_.nodes) nodes = std::max(nodes, comments_.nodes().value_or(0));
    if (!source_.nodes || !source_.nodes_from.empty()) comments_.check_nodes(nodes, false);
    return nodes;
  }

  bool is_undirected() const {
    return options_.direction == Direction::undirected ||
           (options_.direction == Direction::automatic && comments_.undirected().value_or(false));
  }

  TableLayout layout_;
  Columns columns_;
  EdgeComments comments_;
  Times times_;
  Count self_loops_ = 0;
  NodeNumbering numbering_;
  Count num_named_ = 0;
  std::string names_;
};

}  // namespace

Graph read_edge_list(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return EdgeListReader(source, options, assembly).read();
}

}  // namespace strata::graph
