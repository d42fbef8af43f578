// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "build_csc.hpp"
#include "generators/synthetic_kinds.hpp"

namespace strata::graph {
namespace {

constexpr Count kEdgesPerPiece = Count{1} << 14;
constexpr Count kLabelsPerPiece = 4096;
constexpr std::uint64_t kMostAttempts = 64;

struct Edge {
  NodeId source, destination;
};

/// A degree-corrected stochastic block model whose nodes are ordered by class; `members` gives their ids.
///
/// Member floor(u^2 m) of m is drawn, so member r with a probability nearly in proportion to (r +
/// 1/2)^(-1/2). Expected degrees then follow a power law with exponent 3, without a table of weights.
template <typename Id>
class SbmEdges {
 public:
  SbmEdges(const SyntheticSpec& spec, const std::vector<Id>& members)
      : spec_(spec), members_(members), words_(spec.seed, Purpose::edge) {
    for (Count group = 0; group <= spec.classes; ++group) first_.push_back(group * spec.nodes / spec.classes);
  }

  Count class_of(Count position) const { return ((position + 1) * spec_.classes - 1) / spec_.nodes; }

  Edge operator()(Count edge) const {
    Count from = 0, to = 0;
    for (std::uint64_t attempt = 0; attempt < kMostAttempts && from == to; ++attempt) {
      const std::uint64_t first_word = (static_cast<std::uint64_t>(edge) * kMostAttempts + attempt) * 4;
      const std::uint64_t choice = words_(first_word);
      const Count from_class = any_class(choice);
      const bool inside = words_.unit(first_word + 1) < spec_.homophily;
      from = member_of(from_class, words_.unit(first_word + 2));
      to = member_of(inside ? from_class : any_class(mix64(choice)), words_.unit(first_word + 3));
    }
    if (from == to) to = (from + 1) % spec_.nodes;  // a class of one member that draws itself
    return {members_[at(from)], members_[at(to)]};
  }

 private:
  Count any_class(std::uint64_t word) const {
    return class_of(static_cast<Count>(unit_double(word) * static_cast<double>(spec_.nodes)));
  }
  Count member_of(Count group, double u) const {
    const Count first = first_[at(group)], members = first_[at(group) + 1] - first;
    return first + static_cast<Count>(u * u * static_cast<double>(members));
  }

  const SyntheticSpec& spec_;
  const std::vector<Id>& members_;
  KeyedWords words_;
  std::vector<Count> first_;  // of each class, and the end
};

/// R-MAT (Chakrabarti, Zhan, Faloutsos, SDM 2004): each level chooses a quadrant of the matrix by 16 random
/// bits. Edges beyond the number of nodes are drawn again.
class RmatEdges {
 public:
  explicit RmatEdges(const SyntheticSpec& spec) : nodes_(spec.nodes), words_(spec.seed, Purpose::edge) {
    while ((Count{1} << levels_) < nodes_) ++levels_;
    a_ = static_cast<std::uint32_t>(spec.a * 65536);
    ab_ = static_cast<std::uint32_t>((spec.a + spec.b) * 65536);
    abc_ = static_cast<std::uint32_t>((spec.a + spec.b + spec.c) * 65536);
  }

  Edge operator()(Count edge) const {
    Edge drawn{};
    for (std::uint64_t attempt = 0; attempt < kMostAttempts; ++attempt) {
      drawn = draw(static_cast<std::uint64_t>(edge) * kMostAttempts + attempt);
      if (drawn.source < nodes_ && drawn.destination < nodes_) return drawn;
    }
    return {drawn.source % nodes_, drawn.destination % nodes_};
  }

 private:
  static constexpr std::uint64_t kWordsPerDraw = 16;  // of four levels each

  Edge draw(std::uint64_t index) const {
    Edge edge{0, 0};
    std::uint64_t bits = 0;
    for (int level = 0; level < levels_; ++level) {
      if (level % 4 == 0) bits = words_(index * kWordsPerDraw + static_cast<std::uint64_t>(level / 4));
      const auto u = static_cast<std::uint32_t>(bits & 0xffff);
      bits >>= 16;
      edge.source = edge.source * 2 + (u >= ab_);
      edge.destination = edge.destination * 2 + ((u >= a_ && u < ab_) || u >= abc_);
    }
    return edge;
  }

  Count nodes_;
  int levels_ = 0;
  std::uint32_t a_ = 0, ab_ = 0, abc_ = 0;
  KeyedWords words_;
};

/// Draws the edges and sorts them into `graph`. The graph is undirected unless asked otherwise: half as many
/// draws, each in both directions.
template <typename Id, typename Draw>
void build_from(const Draw& draw, const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly,
                Graph& graph) {
  const bool directed = options.direction == ReadOptions::Direction::directed;
  const auto count = at(directed ? spec.edges : spec.edges / 2);
  graph.structure.num_nodes = spec.nodes;
  if (assembly.scratch != nullptr) {
    const auto draw_some = [&](Count begin, Count end, const DrawnEdges::Take& take) {
      for (Count i = begin; i < end; ++i) {
        const Edge edge = draw(i);
        take(edge.source, edge.destination, i);
      }
    };
    const auto drawn = static_cast<Count>(count);
    return build_structure(graph, {.count = drawn, .units = drawn, .draw = draw_some}, options, !directed,
                           assembly);
  }
  ThreadPool& pool = assembly.pool;
  std::vector<Id> sources(count), destinations(count);
  pool.parallel_for(static_cast<Count>(count), kEdgesPerPiece, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i) {
      const Edge edge = draw(i);
      sources[at(i)] = static_cast<Id>(edge.source);
      destinations[at(i)] = static_cast<Id>(edge.destination);
    }
  });
  const EdgeList list{.sources = sources.data(),
                      .destinations = destinations.data(),
                      .count = static_cast<Count>(count),
                      .wide = sizeof(Id) == 8,
                      .origin = "synthetic"};
  build_structure(graph, spec.nodes, list, options, !directed, assembly);
}

template <typename Id>
void generate_sbm_with(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly,
                       Graph& graph) {
  std::vector<Id> members(at(spec.nodes));
  const SbmEdges<Id> edges(spec, members);
  const std::uint64_t key = KeyedWords(spec.seed, Purpose::member)(0);
  graph.labels.resize(members.size());
  assembly.pool.parallel_for(spec.nodes, kLabelsPerPiece, [&](Count begin, Count end) {
    for (Count position = begin; position < end; ++position) {
      const std::uint64_t node =
          shuffled(static_cast<std::uint64_t>(position), static_cast<std::uint64_t>(spec.nodes), key);
      members[at(position)] = static_cast<Id>(node);
      graph.labels[node] = static_cast<std::int32_t>(edges.class_of(position));
    }
  });
  SyntheticSpec possible = spec;
  if (spec.nodes == 1) possible.edges = 0;  // this model makes no self-loops
  build_from<Id>(edges, possible, options, assembly, graph);
}

}  // namespace

void generate_sbm(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly, Graph& graph) {
  if (spec.nodes <= INT32_MAX)
    generate_sbm_with<std::int32_t>(spec, options, assembly, graph);
  else
    generate_sbm_with<std::int64_t>(spec, options, assembly, graph);
}

void generate_rmat(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly, Graph& graph) {
  graph.labels.resize(at(spec.nodes));
  random_labels(spec, 0, graph.labels, assembly.pool);
  const RmatEdges edges(spec);
  if (spec.nodes <= INT32_MAX)
    build_from<std::int32_t>(edges, spec, options, assembly, graph);
  else
    build_from<std::int64_t>(edges, spec, options, assembly, graph);
}

}  // namespace strata::graph
