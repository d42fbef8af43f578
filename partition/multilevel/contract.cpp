// SPDX-License-Identifier: Apache-2.0
#include "multilevel/contract.hpp"

#include <algorithm>

#include "multilevel/scratch.hpp"

namespace strata::partition {
namespace {

constexpr Count kGrain = Count{1} << 10;

std::size_t at(Count i) { return static_cast<std::size_t>(i); }

/// The nodes of every cluster, ascending: nodes[begin[c] .. begin[c + 1]).
struct Members {
  std::vector<Count> begin;
  std::vector<std::int32_t> nodes;

  explicit Members(const Clusters& clusters) : begin(at(clusters.count + 1)), nodes(clusters.of_node.size()) {
    for (const std::int32_t c : clusters.of_node) ++begin[at(c) + 1];
    for (Count c = 0; c < clusters.count; ++c) begin[at(c + 1)] += begin[at(c)];
    std::vector<Count> next(begin.begin(), begin.end() - 1);
    for (std::size_t v = 0; v < nodes.size(); ++v)
      nodes[at(next[at(clusters.of_node[v])]++)] = static_cast<std::int32_t>(v);
  }
};

/// The lists of consecutive clusters, before their place in the whole is known.
struct Piece {
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> weights;
};

class Contraction {
 public:
  Contraction(const LevelGraph& graph, const Clusters& clusters, ThreadPool& pool)
      : graph_{graph}, clusters_{clusters}, pool_{pool}, members_{clusters} {}

  LevelGraph run() {
    LevelGraph coarse;
    coarse.num_nodes = clusters_.count;
    coarse.num_constraints = graph_.num_constraints;
    coarse.own_begin.resize(at(coarse.num_nodes + 1));
    coarse.node_weights.resize(at(coarse.num_nodes * coarse.num_constraints));
    pieces_.resize(at((coarse.num_nodes + kGrain - 1) / kGrain));
    pool_.parallel_for(coarse.num_nodes, kGrain,
                       [&](Count first, Count last) { gather(first, last, coarse); });
    for (Count c = 0; c < coarse.num_nodes; ++c) coarse.own_begin[at(c + 1)] += coarse.own_begin[at(c)];
    coarse.own_ids.resize(at(coarse.own_begin.back()));
    coarse.edge_weights.resize(at(coarse.own_begin.back()));
    pool_.parallel_for(coarse.num_nodes, kGrain, [&](Count first, Count) { put(first, coarse); });
    coarse.use_own_lists();
    return coarse;
  }

 private:
  void gather(Count first, Count last, LevelGraph& coarse) {
    Shelf<Sums>::Loan loan{shelf_};
    Sums& sums = *loan;
    Piece& piece = pieces_[at(first / kGrain)];
    for (Count c = first; c < last; ++c) {
      Count entries = 0;
      for (Count i = members_.begin[at(c)]; i < members_.begin[at(c + 1)]; ++i) {
        const std::int32_t v = members_.nodes[at(i)];
        entries += graph_.degree(v);
        for (int k = 0; k < graph_.num_constraints; ++k)
          coarse.node_weights[at(c * graph_.num_constraints + k)] += graph_.weight(v, k);
      }
      sums.reset(std::min(entries, clusters_.count));
      for (Count i = members_.begin[at(c)]; i < members_.begin[at(c + 1)]; ++i)
        add_neighbors(members_.nodes[at(i)], c, sums);
      const std::size_t before = piece.ids.size();
      sums.visit([&](std::int32_t other, Count weight) {
        piece.ids.push_back(other);
        piece.weights.push_back(static_cast<std::uint32_t>(weight));
      });
      coarse.own_begin[at(c + 1)] = static_cast<Count>(piece.ids.size() - before);
    }
  }

  void add_neighbors(Count v, Count cluster, Sums& sums) {
    for (Count e = graph_.begin[v]; e < graph_.begin[v + 1]; ++e) {
      const std::int32_t other = clusters_.of_node[at(graph_.ids[e])];
      if (other != cluster) sums.add(other, graph_.edge_weight(e));
    }
  }

  void put(Count first, LevelGraph& coarse) {
    Piece& piece = pieces_[at(first / kGrain)];
    std::copy(piece.ids.begin(), piece.ids.end(), coarse.own_ids.begin() + coarse.own_begin[at(first)]);
    std::copy(piece.weights.begin(), piece.weights.end(),
              coarse.edge_weights.begin() + coarse.own_begin[at(first)]);
    piece = {};
  }

  const LevelGraph& graph_;
  const Clusters& clusters_;
  ThreadPool& pool_;
  const Members members_;
  std::vector<Piece> pieces_;
  Shelf<Sums> shelf_;
};

}  // namespace

LevelGraph contract(const LevelGraph& graph, const Clusters& clusters, ThreadPool& pool) {
  return Contraction{graph, clusters, pool}.run();
}

}  // namespace strata::partition
