// SPDX-License-Identifier: Apache-2.0
#include "multilevel/contract.hpp"

#include <algorithm>
#include <utility>

#include "multilevel/scratch.hpp"
#include "strata/util/log.hpp"

namespace strata::partition {
namespace {

constexpr Count kContractGrain = Count{1} << 10;

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
      : graph_{graph},
        clusters_{clusters},
        pool_{pool},
        members_{clusters},
        progress_{"contract", graph.num_nodes, "nodes"} {}

  LevelGraph run() {
    LevelGraph coarse;
    coarse.num_nodes = clusters_.count;
    coarse.num_constraints = graph_.num_constraints;
    coarse.own_begin.resize(at(coarse.num_nodes + 1));
    coarse.node_weights.resize(at(coarse.num_nodes * coarse.num_constraints));
    if (graph_.scratch != nullptr) {
      run_stored(coarse);
      return coarse;
    }
    pieces_.resize(at((coarse.num_nodes + kContractGrain - 1) / kContractGrain));
    pool_.parallel_for(coarse.num_nodes, kContractGrain, [&](Count first, Count last) {
      gather(first, last, coarse, pieces_[at(first / kContractGrain)]);
    });
    for (Count c = 0; c < coarse.num_nodes; ++c) coarse.own_begin[at(c + 1)] += coarse.own_begin[at(c)];
    coarse.own_ids.resize(at(coarse.own_begin.back()));
    coarse.own_edge_weights.resize(at(coarse.own_begin.back()));
    pool_.parallel_for(coarse.num_nodes, kContractGrain, [&](Count first, Count) { put(first, coarse); });
    coarse.use_own_lists();
    return coarse;
  }

 private:
  void gather(Count first, Count last, LevelGraph& coarse, Piece& piece) {
    Shelf<Sums>::Loan loan{shelf_};
    Sums& sums = *loan;
    FarReader<std::int32_t> ids{graph_.scratch, graph_.ids};
    FarReader<std::uint32_t> weights{graph_.scratch, graph_.edge_weights};
    for (Count c = first; c < last; ++c) {
      Count entries = 0;
      for (Count i = members_.begin[at(c)]; i < members_.begin[at(c + 1)]; ++i) {
        const std::int32_t v = members_.nodes[at(i)];
        entries += graph_.degree(v);
        for (int k = 0; k < graph_.num_constraints; ++k)
          coarse.node_weights[at(c * graph_.num_constraints + k)] += graph_.weight(v, k);
      }
      sums.reset(std::min(entries, clusters_.count));
      for (Count i = members_.begin[at(c)]; i < members_.begin[at(c + 1)]; ++i) {
        const std::int32_t v = members_.nodes[at(i)];
        const Count first_entry = graph_.begin[v], degree = graph_.degree(v);
        const std::int32_t* const neighbors = ids.read(first_entry, degree);
        const std::uint32_t* const of_edges =
            graph_.edge_weights == nullptr ? nullptr : weights.read(first_entry, degree);
        for (Count e = 0; e < degree; ++e) {
          const std::int32_t other = clusters_.of_node[at(neighbors[e])];
          if (other != c) sums.add(other, of_edges == nullptr ? 1 : of_edges[e]);
        }
      }
      const std::size_t before = piece.ids.size();
      sums.visit([&](std::int32_t other, Count weight) {
        piece.ids.push_back(other);
        piece.weights.push_back(static_cast<std::uint32_t>(weight));
      });
      coarse.own_begin[at(c + 1)] = static_cast<Count>(piece.ids.size() - before);
    }
    progress_.advance(members_.begin[at(last)] - members_.begin[at(first)]);
  }

  void put(Count first, LevelGraph& coarse) {
    Piece& piece = pieces_[at(first / kContractGrain)];
    std::copy(piece.ids.begin(), piece.ids.end(), coarse.own_ids.begin() + coarse.own_begin[at(first)]);
    std::copy(piece.weights.begin(), piece.weights.end(),
              coarse.own_edge_weights.begin() + coarse.own_begin[at(first)]);
    piece = {};
  }

  /// Runs of clusters such that one per thread fits the buffers.
  std::vector<Count> bounds_by_entries() const {
    constexpr Count kEntryBytes = 40;  // in a piece, in the table of sums, and in the piece before
    const Count most = graph_.scratch->buffer_limit() / kEntryBytes / pool_.num_threads();
    std::vector<Count> bounds{0};
    Count entries = 0;
    for (Count c = 0; c < clusters_.count; ++c) {
      for (Count i = members_.begin[at(c)]; i < members_.begin[at(c + 1)]; ++i)
        entries += graph_.degree(members_.nodes[at(i)]);
      if (entries < most && c + 1 < clusters_.count) continue;
      bounds.push_back(c + 1);
      entries = 0;
    }
    return bounds;
  }

  /// The lists of the coarse graph go to scratch files, some pieces at a time while the next ones are
  /// gathered, and come back if they fit in memory.
  void run_stored(LevelGraph& coarse) {
    ScratchWriter<std::int32_t> ids{*graph_.scratch};
    ScratchWriter<std::uint32_t> weights{*graph_.scratch};
    const std::vector<Count> bounds = bounds_by_entries();
    const Count num_runs = std::ssize(bounds) - 1, at_once = pool_.num_threads();
    constexpr Count kFiles = 2;
    const auto write = [&](Count file) {
      for (const Piece& piece : pieces_) {
        if (file == 0)
          ids.append(piece.ids);
        else
          weights.append(piece.weights);
      }
    };
    for (Count begin = 0; begin < num_runs; begin += at_once) {
      const Count runs = std::min(at_once, num_runs - begin);
      std::vector<Piece> gathered(at(runs));
      pool_.parallel_for(runs + kFiles, 1, [&](Count i, Count) {
        if (i < kFiles) return write(i);
        const Count run = i - kFiles;
        gather(bounds[at(begin + run)], bounds[at(begin + run + 1)], coarse, gathered[at(run)]);
      });
      pieces_ = std::move(gathered);
    }
    for (Count file = 0; file < kFiles; ++file) write(file);
    pieces_ = {};
    for (Count c = 0; c < coarse.num_nodes; ++c) coarse.own_begin[at(c + 1)] += coarse.own_begin[at(c)];
    coarse.stored_ids = std::move(ids).finish();
    coarse.stored_edge_weights = std::move(weights).finish();
    const std::int64_t bytes = coarse.own_begin.back() * 8;
    if (bytes <= graph_.scratch->array_limit()) {
      const std::span<std::int32_t> all_ids = coarse.stored_ids.span();
      const std::span<std::uint32_t> all_weights = coarse.stored_edge_weights.span();
      coarse.own_ids.assign(all_ids.begin(), all_ids.end());
      coarse.own_edge_weights.assign(all_weights.begin(), all_weights.end());
      coarse.stored_ids = {};
      coarse.stored_edge_weights = {};
      coarse.use_own_lists();
      return;
    }
    coarse.scratch = graph_.scratch;
    coarse.begin = coarse.own_begin.data();
    coarse.ids = coarse.stored_ids.data();
    coarse.edge_weights = coarse.stored_edge_weights.data();
  }

  const LevelGraph& graph_;
  const Clusters& clusters_;
  ThreadPool& pool_;
  const Members members_;
  ProgressBar progress_;
  std::vector<Piece> pieces_;
  Shelf<Sums> shelf_;
};

}  // namespace

LevelGraph contract(const LevelGraph& graph, const Clusters& clusters, ThreadPool& pool) {
  return Contraction{graph, clusters, pool}.run();
}

}  // namespace strata::partition
