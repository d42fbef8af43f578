// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "readers/text/edge_text_reader.hpp"
#include "readers/text/fields.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

/// The first line and the line of sizes.
struct MatrixHeader {
  bool values = false, symmetric = false;
  Count nodes = 0, entries = 0;
  Count line = 0;  ///< of the sizes
};

struct EntriesPiece {
  std::vector<NodeId> pairs;
  std::vector<float> weights;
};

class MatrixMarketReader : private EdgeTextReader {
 public:
  using EdgeTextReader::EdgeTextReader;

  Graph read() {
    read_header();
    read_lines<EntriesPiece>(
        header_.line + 1, [](std::string_view line) { return is_comment(line, "%"); },
        [this](std::string_view line, const Place& place, EntriesPiece& piece) { parse(line, place, piece); },
        [this](EntriesPiece& piece, double share_read) {
          edges_.append(piece.pairs, share_read);
          weights_.append(piece.weights);
        });
    if (edges_.size() != header_.entries)
      throw InputError(
          fmt::format("{}: {} entries, but {} are stated", path_, edges_.size(), header_.entries),
          "Copy the file again: it may be cut off.");
    Graph graph;
    graph.name = std::filesystem::path(path_).stem().stem().string();
    const bool both = header_.symmetric && options_.direction != ReadOptions::Direction::directed;
    EdgeList edges = edges_.list();
    if (!weights_.all_are_one()) weights_.give_to(edges, path_);
    build_structure(graph, header_.nodes, edges, options_,
                    both || options_.direction == ReadOptions::Direction::undirected, assembly_);
    return graph;
  }

 private:
  void read_header() {
    LineBlocks blocks(source_.place);
    Block block;
    Count number = 0;
    while (blocks.next(block)) {
      Lines lines(block.text);
      for (std::string_view line; lines.next(line);) {
        const Place place = place_of(line, ++number, block, path_);
        if (number == 1)
          parse_banner(line, place);
        else if (!is_comment(line, "%"))
          return parse_sizes(line, place);
      }
    }
    throw InputError(fmt::format("{}: no line of sizes", path_), "Copy the file again: it may be cut off.");
  }

  void parse_banner(std::string_view line, const Place& place) {
    std::string lower(line);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    FieldsOfLine fields(lower, " ", place);
    std::vector<std::string> words;
    while (const auto field = fields.next()) words.emplace_back(*field);
    if (words.size() != 5 || words[0] != "%%matrixmarket" || words[1] != "matrix")
      place.refuse("not the first line of a Matrix Market file",
                   "It reads, for example: %%MatrixMarket matrix coordinate pattern symmetric");
    if (words[2] != "coordinate")
      place.refuse(fmt::format("a matrix in the format '{}'", printable(words[2])),
                   "Only sparse matrices (coordinate) are graphs.");
    const auto one_of = [&](const std::string& word, const std::vector<std::string>& known) {
      if (std::ranges::find(known, word) == known.end())
        place.refuse(fmt::format("'{}' is not read", printable(word)),
                     fmt::format("Known are: {}.", fmt::join(known, ", ")));
    };
    one_of(words[3], {"pattern", "real", "integer", "unsigned-integer"});
    one_of(words[4], {"general", "symmetric"});
    header_.values = words[3] != "pattern";
    header_.symmetric = words[4] == "symmetric";
  }

  void parse_sizes(std::string_view line, const Place& place) {
    FieldsOfLine fields(line, " ", place);
    std::vector<Count> sizes;
    while (const auto field = fields.next()) sizes.push_back(number_of<Count>(*field, place, "size"));
    if (sizes.size() != 3 || *std::ranges::min_element(sizes) < 0)
      place.refuse("not the line of sizes", "It holds the numbers of rows, columns and entries.");
    if (sizes[0] != sizes[1])
      place.refuse(fmt::format("a matrix of {} rows and {} columns", sizes[0], sizes[1]),
                   "An adjacency matrix has one row and one column per node.");
    header_.nodes = sizes[0];
    header_.entries = sizes[2];
    header_.line = place.line;
  }

  void parse(std::string_view line, const Place& place, EntriesPiece& piece) const {
    FieldsOfLine fields(line, " ", place);
    for (const char* const what : {"row", "column"}) {
      const auto field = fields.next();
      if (!field) place.refuse(fmt::format("no {}", what));
      const auto id = number_of<NodeId>(*field, place, what);
      if (id < 1 || id > header_.nodes)
        place.refuse(fmt::format("{} {} is not within [1, {}]", what, id, header_.nodes),
                     "Correct the line; Matrix Market counts from 1.");
      piece.pairs.push_back(id - 1);
    }
    if (header_.values) take_value(fields.next(), place, piece);
    if (fields.next()) place.refuse("more numbers than an entry has");
  }

  void take_value(std::optional<std::string_view> field, const Place& place, EntriesPiece& piece) const {
    if (!field) place.refuse("an entry without a value");
    const auto value = number_of<float>(*field, place, "value");
    if (source_.ignore_values) return;
    if (!is_edge_weight(value))
      place.refuse(fmt::format("value {} cannot be the weight of an edge", *field),
                   "Weights are finite numbers from 0. mtx:FILE,values=ignore reads only where entries are.");
    piece.weights.push_back(value);
  }

  MatrixHeader header_;
};

}  // namespace

Graph read_matrix_market(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return MatrixMarketReader(source, options, assembly).read();
}

}  // namespace strata::graph
