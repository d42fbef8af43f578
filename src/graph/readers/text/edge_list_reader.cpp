// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "readers/assemble.hpp"
#include "readers/edge_weights.hpp"
#include "readers/text/edge_buffer.hpp"
#include "readers/text/fields.hpp"
#include "readers/text/line_blocks.hpp"
#include "readers/text/node_numbering.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"

namespace strata::graph {
namespace {

using Ids = DatasetSource::Ids;
using Direction = ReadOptions::Direction;

constexpr std::string_view kCommentMarks = "#%";

/// What the first lines tell of the whole file.
struct Layout {
  std::string separator = " ";
  Count header_line = 0;  ///< the line that names the columns; 0: none
};

/// Of the edges that were read.
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
};

const char* find_separator(std::string_view line) {
  for (const char* const candidate : {",", ";", "|", "\t"})
    if (line.find(candidate) != std::string_view::npos) return candidate;
  return " ";
}

bool is_number(std::string_view field) {
  double value = 0;
  const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return stop == field.data() + field.size() && error != std::errc::invalid_argument;
}

class EdgeListReader {
 public:
  EdgeListReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source),
        options_(options),
        pool_(assembly.pool),
        assembly_(assembly),
        path_(source.place.string()),
        edges_(path_, assembly.scratch) {}

  Graph read() {
    find_layout();
    LineBlocks blocks(source_.place, block_bytes_within(assembly_.scratch, pool_));
    parse_blocks<EdgesPiece>(
        blocks, pool_, [this](const Block& block, EdgesPiece& piece) { parse(block, piece); },
        [&](EdgesPiece& piece) { take(piece, blocks.share_read()); });
    if (source_.time_column) tell_times();
    number_nodes();
    Graph graph;
    graph.name = std::filesystem::path(path_).stem().string();
    graph.node_names = std::move(names_);
    const Count nodes = count_nodes();
    EdgeList edges = edges_.list();
    if (source_.weight_column) weights_.give_to(edges, path_);
    build_structure(graph, nodes, edges, options_, is_undirected(), assembly_);
    if (!direction_known_ && !graph.undirected)
      spdlog::warn(
          "{}: a list of edges does not say whether they have a direction: each is taken from its first node "
          "to "
          "its second. --direction undirected adds the other direction, --direction directed says so",
          path_);
    return graph;
  }

 private:
  /// Reads the first block for the separator, a line of column names and what SNAP says of directions.
  void find_layout() {
    LineBlocks blocks(source_.place);
    Block block;
    blocks.next(block);
    if (block.text.starts_with("\xff\xfe") || block.text.starts_with("\xfe\xff"))
      Place{path_, 1}.refuse("this is UTF-16 text", "Save it as UTF-8: `iconv -f utf-16 -t utf-8`.");
    Lines lines(without_byte_order_mark(block.text));
    Count number = 0;
    for (std::string_view line; lines.next(line);) {
      ++number;
      if (is_comment(line, kCommentMarks)) {
        note_direction(line);
        continue;
      }
      layout_.separator = source_.separator.empty() ? find_separator(line) : source_.separator;
      const Place place = place_of(line, number, block, path_);
      if (has_header(line, place)) layout_.header_line = number;
      return;
    }
  }

  /// SNAP's files say "# Directed graph" or "# Undirected graph".
  void note_direction(std::string_view line) {
    if (options_.direction != Direction::automatic) return;
    if (line.find("Undirected graph") != std::string_view::npos) listed_once_ = direction_known_ = true;
    if (line.find("Directed graph") != std::string_view::npos) direction_known_ = true;
  }

  bool has_header(std::string_view line, const Place& place) const {
    if (source_.header) return *source_.header;
    if (source_.ids == Ids::string) return false;
    FieldsOfLine fields(line, layout_.separator, place);
    Count column = 0;
    bool names = true;
    for (std::optional<std::string_view> field; (field = fields.next()); ++column)
      if (column == source_.source_column || column == source_.destination_column)
        names = names && !field->empty() && !is_number(*field);
    names = names && column > std::max<Count>({1, source_.source_column, source_.destination_column});
    if (names)
      spdlog::warn("{}:{}: taken for names of columns, not read: {}", path_, place.line,
                   printable(line.substr(0, 80)));
    return names;
  }

  void parse(const Block& block, EdgesPiece& piece) const {
    const std::string_view text =
        block.offset == 0 ? without_byte_order_mark(block.text) : std::string_view(block.text);
    Lines lines(text);
    Count number = block.line;
    for (std::string_view line; lines.next(line); ++number) {
      if (number == layout_.header_line || is_comment(line, kCommentMarks)) continue;
      const Place place = place_of(line, number, block, path_);
      parse_line(line, place, piece);
    }
  }

  void parse_line(std::string_view line, const Place& place, EdgesPiece& piece) const {
    FieldsOfLine fields(line, layout_.separator, place);
    std::optional<std::string_view> source, destination, weight, time;
    Count column = 0;
    for (std::optional<std::string_view> field; (field = fields.next()); ++column) {
      if (column == source_.source_column) source = field;
      if (column == source_.destination_column) destination = field;
      if (source_.weight_column == column) weight = field;
      if (source_.time_column == column) time = field;
    }
    if (!source || !destination || (source_.weight_column && !weight) || (source_.time_column && !time))
      place.refuse(fmt::format("{}, but column {} is wanted, counted from 0", counted(column, "column"),
                               last_column()),
                   "See separator=, source=, target=, weight= and time= in docs/data.md.");
    if (time && !is_of_its_time(*time, place, piece.times)) return;
    take_ids(*source, *destination, place, piece);
    if (weight) take_weight(*weight, place, piece);
  }

  Count last_column() const {
    return std::max({source_.source_column, source_.destination_column, source_.weight_column.value_or(0),
                     source_.time_column.value_or(0)});
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
  }

  void tell_times() const {
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
    edges_.renumber(order.place, pool_);
    num_named_ = std::ssize(order.place);
    names_ = std::move(order.names);
    numbering_ = {};
  }

  Count count_nodes() const {
    if (source_.ids != Ids::number) return num_named_;
    return edges_.count_nodes(
        source_.nodes,
        "Give ids=sparse, which numbers the nodes anew and writes a file of their ids; or say "
        "nodes=N if all these nodes exist.");
  }

  bool is_undirected() const {
    return options_.direction == Direction::undirected ||
           (options_.direction == Direction::automatic && listed_once_);
  }

  const DatasetSource& source_;
  const ReadOptions& options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  std::string path_;
  Layout layout_;
  bool listed_once_ = false;
  bool direction_known_ = options_.direction != Direction::automatic;
  EdgeBuffer edges_;
  EdgeWeights weights_{assembly_.scratch};
  Times times_;
  NodeNumbering numbering_;
  Count num_named_ = 0;
  std::string names_;
};

}  // namespace

Graph read_edge_list(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return EdgeListReader(source, options, assembly).read();
}

}  // namespace strata::graph
