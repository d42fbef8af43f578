// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "readers/text/edge_text_reader.hpp"
#include "readers/text/fields.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

/// The first line: nodes, undirected edges, a code of three digits, and the number of weights per node.
struct MetisHeader {
  Count nodes = 0, edges = 0;
  bool sizes = false, edge_weights = false;
  Count node_weights = 0;
  Count line = 0;
};

/// The entries of a block. Destinations count from the block's first node.
struct NodesPiece {
  Count nodes = 0;
  std::vector<NodeId> pairs;
  std::vector<float> weights;
  std::vector<std::int32_t> node_weights = {};  ///< [nodes, kinds]; kNone where a line is blank
  std::vector<Count> lines = {};

  static constexpr std::int32_t kNone = -1;
};

class MetisReader : private EdgeTextReader {
 public:
  using EdgeTextReader::EdgeTextReader;

  Graph read() {
    read_header();
    read_lines<NodesPiece>(
        header_.line + 1, is_comment_line,
        [this](std::string_view line, const Place& place, NodesPiece& piece) {
          parse_node(line, place, piece);
          ++piece.nodes;
          piece.lines.push_back(place.line);
        },
        [this](NodesPiece& piece, double share_read) { take(piece, share_read); });
    check_counts();
    if (header_.sizes) spdlog::warn("{}: sizes of nodes are checked but not used", path_);
    Graph graph;
    graph.node_weights = std::move(node_weights_);
    graph.name = std::filesystem::path(path_).stem().stem().string();
    EdgeList edges = edges_.list();
    if (header_.edge_weights) weights_.give_to(edges, path_);
    build_structure(graph, header_.nodes, edges, options_,
                    options_.direction == ReadOptions::Direction::undirected, assembly_);
    refuse_one_way(graph);
    return graph;
  }

 private:
  static bool is_comment_line(std::string_view line) {
    return line.find_first_not_of(" \t") != line.npos && is_comment(line, "%");
  }

  void read_header() {
    LineBlocks blocks(source_.place);
    Block block;
    Count number = 0;
    while (blocks.next(block)) {
      Lines lines(block.text);
      for (std::string_view line; lines.next(line);) {
        ++number;
        if (is_comment(line, "%")) continue;
        parse_header(line, place_of(line, number, block, path_));
        return;
      }
    }
    throw InputError(fmt::format("{}: no header", path_),
                     "A METIS file begins with its numbers of nodes and edges.");
  }

  void parse_header(std::string_view line, const Place& place) {
    FieldsOfLine fields(line, " ", place);
    std::vector<std::string_view> all;
    while (const auto field = fields.next()) all.push_back(*field);
    if (all.size() < 2 || all.size() > 4)
      place.refuse(
          fmt::format("a header of {} numbers", all.size()),
          "A METIS file begins with: nodes, edges, and perhaps a code such as 011 and the number of weights "
          "per node.");
    header_.nodes = count_of(all[0], place, "nodes");
    header_.edges = count_of(all[1], place, "edges");
    header_.line = place.line;
    if (all.size() > 2) parse_code(all[2], place);
    if (all.size() == 4) {
      const Count weights = count_of(all[3], place, "weights per node");
      if (header_.node_weights == 0 && weights > 0)
        place.refuse(
            fmt::format("{} weights per node, but the code {} says that there are none", weights, all[2]));
      header_.node_weights = weights;
    }
    if (header_.node_weights > NodeWeights::kMostKinds)
      place.refuse(fmt::format("{} weights per node; at most {} are read", header_.node_weights,
                               NodeWeights::kMostKinds));
    node_weights_.kinds = static_cast<int>(header_.node_weights);
  }

  /// Parses the digits, which state whether there are sizes of nodes, weights of nodes and weights of edges.
  void parse_code(std::string_view code, const Place& place) {
    if (code.size() > 3 || code.find_first_not_of("01") != code.npos)
      place.refuse(fmt::format("'{}' is not a code of three digits 0 or 1", printable(code.substr(0, 40))));
    const std::string digits = std::string(3 - code.size(), '0') + std::string(code);
    header_.sizes = digits[0] == '1';
    header_.node_weights = digits[1] == '1' ? 1 : 0;
    header_.edge_weights = digits[2] == '1';
  }

  static Count count_of(std::string_view field, const Place& place, const char* what) {
    const auto count = number_of<Count>(field, place, what);
    if (count < 0) place.refuse(fmt::format("{}: {} is negative", what, count));
    return count;
  }

  void parse_node(std::string_view line, const Place& place, NodesPiece& piece) const {
    FieldsOfLine fields(line, " ", place);
    if (header_.sizes) {
      const auto size = fields.next();
      if (size) count_of(*size, place, "size of the node");
    }
    parse_node_weights(fields, place, piece);
    while (const auto field = fields.next()) {
      const auto neighbor = number_of<NodeId>(*field, place, "neighbor");
      if (neighbor < 1 || neighbor > header_.nodes)
        place.refuse(fmt::format("neighbor {} is not within [1, {}]", neighbor, header_.nodes),
                     "Correct the line; METIS counts nodes from 1.");
      piece.pairs.push_back(neighbor - 1);
      piece.pairs.push_back(piece.nodes);
      if (!header_.edge_weights) continue;
      const auto weight = fields.next();
      if (!weight) place.refuse(fmt::format("neighbor {} has no weight", neighbor));
      piece.weights.push_back(static_cast<float>(count_of(*weight, place, "weight of the edge")));
    }
  }

  /// Parses the weights of a node; a blank line may follow the last one, which take_node_weights() knows.
  void parse_node_weights(FieldsOfLine& fields, const Place& place, NodesPiece& piece) const {
    const std::size_t end = piece.node_weights.size() + at(node_weights_.kinds);
    while (piece.node_weights.size() < end) {
      const auto field = fields.next();
      if (!field) break;
      const Count weight = count_of(*field, place, "weight of the node");
      if (weight > std::numeric_limits<std::int32_t>::max())
        place.refuse(fmt::format("weight of the node: {} takes more than 31 bits", weight),
                     "Divide the weights of all nodes.");
      piece.node_weights.push_back(static_cast<std::int32_t>(weight));
    }
    piece.node_weights.resize(end, NodesPiece::kNone);
  }

  void take(NodesPiece& piece, double share_read) {
    if (nodes_read_ + piece.nodes > header_.nodes) refuse_further_lines(piece);
    take_node_weights(piece);
    for (std::size_t i = 1; i < piece.pairs.size(); i += 2) piece.pairs[i] += nodes_read_;
    edges_.append(piece.pairs, share_read);
    weights_.append(piece.weights);
    nodes_read_ += piece.nodes;
  }

  void take_node_weights(NodesPiece& piece) {
    const auto kinds = at(node_weights_.kinds);
    piece.node_weights.resize(at(piece.nodes) * kinds);
    const auto missing = std::ranges::find(piece.node_weights, NodesPiece::kNone);
    if (missing != piece.node_weights.end())
      Place{path_, piece.lines[at(missing - piece.node_weights.begin()) / kinds]}.refuse(
          fmt::format("a node without its {} weights", kinds),
          "Write them at the beginning of each line, as the header says.");
    node_weights_.values.insert(node_weights_.values.end(), piece.node_weights.begin(),
                                piece.node_weights.end());
  }

  /// Refuses lines after the last node, except blank ones.
  void refuse_further_lines(NodesPiece& piece) const {
    const Count allowed = header_.nodes - nodes_read_;
    for (std::size_t i = 1; i < piece.pairs.size(); i += 2)
      if (piece.pairs[i] >= allowed)
        Place{path_, piece.lines[at(piece.pairs[i])]}.refuse(
            fmt::format("a line for a further node, but the header states {}", header_.nodes),
            "Correct the header, or copy the file again.");
    piece.nodes = allowed;
  }

  void check_counts() const {
    if (nodes_read_ < header_.nodes)
      throw InputError(
          fmt::format("{}: lines for {} nodes, but the header states {}", path_, nodes_read_, header_.nodes),
          "Copy the file again: it may be cut off. A node without neighbors has an empty line.");
    const bool as_listed = options_.direction != ReadOptions::Direction::automatic;
    if (edges_.size() != 2 * header_.edges && !(as_listed && edges_.size() == header_.edges))
      throw InputError(
          fmt::format("{}: {} neighbors, but the header states {} edges, each of which is listed twice",
                      path_, edges_.size(), header_.edges),
          "Correct the header, or copy the file again.");
  }

  void refuse_one_way(const Graph& graph) const {
    if (graph.undirected || options_.direction != ReadOptions::Direction::automatic) return;
    throw InputError(
        fmt::format("{}: some edges are listed at only one of their nodes", path_),
        "METIS lists an edge at both. --direction undirected adds what is missing, --direction directed "
        "reads the file as it is.");
  }

  MetisHeader header_;
  Count nodes_read_ = 0;
  NodeWeights node_weights_;
};

}  // namespace

Graph read_metis(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return MetisReader(source, options, assembly).read();
}

}  // namespace strata::graph
