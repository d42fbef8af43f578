// SPDX-License-Identifier: Apache-2.0
#include "support/learnable_graph.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "strata/util/random.hpp"

namespace strata::test {
namespace {

constexpr Count kAuthors = 80, kPapers = 200, kVenues = 10, kClasses = 4, kCols = 6;

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : state_(seed) {}

  std::unique_ptr<graph::Graph> make() {
    graph_->name = "papers";
    graph_->types = {.nodes = {"author", "paper", "venue"},
                     .edges = {{"author", "writes", "paper"},
                               {"paper", "writes", "author"},
                               {"paper", "cites", "paper"},
                               {"venue", "never", "author"},
                               {"venue", "shows", "paper"}},
                     .node_offsets = {0, kAuthors, kAuthors + kPapers, kAuthors + kPapers + kVenues},
                     .edge_offsets = {0},
                     .feature_cols = {kCols, kCols, 0}};
    graph_->num_classes = kClasses;
    for (Count v = 0; v < num_nodes(); ++v) classes_.push_back(below(kClasses));
    add_edges();
    add_lists();
    add_features();
    add_labels();
    return std::move(graph_);
  }

 private:
  struct Edge {
    NodeId source = 0, destination = 0;
  };
  static Count num_nodes() { return kAuthors + kPapers + kVenues; }
  Count below(Count bound) {
    return static_cast<Count>((state_ = mix64(state_)) % static_cast<std::uint64_t>(bound));
  }
  static NodeId paper(Count p) { return kAuthors + p; }

  /// A node of the range, mostly of this class.
  NodeId node_like(Count first, Count count, Count wanted) {
    for (;;) {
      const NodeId node = first + below(count);
      if (classes_[at(node)] == wanted || below(25) == 0) return node;
    }
  }

  void add_edges() {
    std::vector<std::vector<Edge>> edges(5);
    for (Count p = 0; p < kPapers; ++p) {
      const Count wanted = classes_[at(paper(p))];
      for (Count k = p % 7 == 0 ? 0 : 1 + below(3); k > 0; --k) {
        const NodeId author = node_like(0, kAuthors, wanted);
        edges[0].push_back({author, paper(p)});
        edges[1].push_back({paper(p), author});
      }
      for (Count k = below(5); k > 0; --k)
        edges[2].push_back({node_like(kAuthors, kPapers, wanted), paper(p)});
      if (p % 2 == 0) edges[4].push_back({kAuthors + kPapers + below(kVenues), paper(p)});
    }
    for (const auto& of_relation : edges)
      graph_->types.edge_offsets.push_back(graph_->types.edge_offsets.back() + std::ssize(of_relation));
    edges_ = std::move(edges);
  }

  void add_lists() {
    graph::CscGraph& lists = graph_->structure;
    lists.num_nodes = num_nodes();
    lists.indptr = {0};
    lists.sublists.first = {0};
    for (NodeId v = 0; v < num_nodes(); ++v) {
      for (std::size_t r = 0; r < edges_.size(); ++r) add_sublist(v, r);
      lists.indptr.push_back(lists.num_edges());
      lists.sublists.first.push_back(lists.sublists.size());
    }
    lists.sublists.begins.push_back(lists.num_edges());
  }

  void add_sublist(NodeId v, std::size_t relation) {
    std::vector<std::pair<NodeId, EdgeId>> found;
    for (Count e = 0; e < std::ssize(edges_[relation]); ++e)
      if (edges_[relation][at(e)].destination == v)
        found.emplace_back(edges_[relation][at(e)].source, graph_->types.edge_offsets[relation] + e);
    if (found.empty()) return;
    std::ranges::sort(found);
    graph::CscGraph& lists = graph_->structure;
    lists.sublists.begins.push_back(lists.num_edges());
    lists.sublists.relations.push_back(static_cast<RelationId>(relation));
    for (const auto& [source, id] : found) {
      lists.indices.push_back(source);
      lists.edge_ids.push_back(id);
    }
  }

  void add_features() {
    auto values = std::make_shared<std::vector<float>>(at(num_nodes() * kCols));
    for (NodeId v = 0; v < kAuthors + kPapers; ++v) {
      for (Count c = 0; c < kCols; ++c)
        (*values)[at(v * kCols + c)] = static_cast<float>(below(1000)) / 500.0f - 1.0f;
      if (v < kAuthors) (*values)[at(v * kCols + classes_[at(v)])] += 2.0f;
    }
    graph_->features = {.rows = num_nodes(),
                        .cols = kCols,
                        .data = reinterpret_cast<const std::byte*>(values->data()),
                        .keep_alive = values};
  }

  void add_labels() {
    graph_->labels.assign(at(num_nodes()), -1);
    for (Count p = 0; p < kPapers; ++p) {
      graph_->labels[at(paper(p))] = static_cast<std::int32_t>(classes_[at(paper(p))]);
      graph::Splits& splits = graph_->splits;
      (p % 4 == 0 ? splits.valid : p % 4 == 1 ? splits.test : splits.train).push_back(paper(p));
    }
  }

  std::uint64_t state_;
  std::unique_ptr<graph::Graph> graph_ = std::make_unique<graph::Graph>();
  std::vector<Count> classes_;
  std::vector<std::vector<Edge>> edges_;
};

}  // namespace

std::unique_ptr<graph::Graph> learnable_graph(std::uint64_t seed) { return Maker(seed).make(); }

}  // namespace strata::test
