// SPDX-License-Identifier: Apache-2.0
#include "multilevel/jet_steps_cpu.hpp"

#include <algorithm>
#include <atomic>

#include "strata/util/log.hpp"
#include "strata/util/random.hpp"

namespace strata::partition {
namespace {

constexpr Count kJetGrain = Count{1} << 11;

enum : std::uint8_t { kResting = 0, kCandidate = 1, kChosen = 2, kLocked = 4 };

}  // namespace

JetStepsCpu::JetStepsCpu(const LevelGraph& graph, const std::vector<std::int32_t>& part_of, int num_parts,
                         ThreadPool& pool)
    : graph_{graph},
      part_of_{part_of},
      num_parts_{num_parts},
      pool_{pool},
      target_(at(graph.num_nodes), -1),
      gain_(at(graph.num_nodes)),
      held_(at(graph.num_nodes)),
      stale_(at(graph.num_nodes), 1),
      state_(at(graph.num_nodes)),
      old_{part_of} {}

Count JetStepsCpu::cut() { return cut_of(graph_, part_of_, pool_); }

void JetStepsCpu::unlock() { std::fill(state_.begin(), state_.end(), kResting); }

JetMoves JetStepsCpu::choose(const JetRound& round) {
  look();
  collect(round);
  filter();
  return moves();
}

/// Finds the best move of every node near which something has changed.
void JetStepsCpu::look() {
  ProgressBar progress("refine", graph_.num_nodes, "nodes");
  pool_.parallel_for(graph_.num_nodes, kJetGrain, [&](Count first, Count last) {
    graph_.release_pages();
    Shelf<Links>::Loan loan{shelf_};
    Links& links = *loan;
    for (Count v = first; v < last; ++v) {
      if (stale_[at(v)] == 0) continue;
      stale_[at(v)] = 0;
      links.count(
          graph_, [this](std::int32_t u) { return part_of_[at(u)]; }, v, num_parts_);
      const std::int32_t own = part_of_[at(v)];
      std::int32_t best = -1;
      Count best_sum = 0;
      std::uint32_t best_coin = 0;
      for (const std::int32_t part : links.parts()) {
        const Count sum = links.to(part);
        if (part == own || sum < best_sum) continue;
        const std::uint32_t coin =
            mix32(static_cast<std::uint32_t>(part) + mix32(static_cast<std::uint32_t>(v)));
        if (sum == best_sum && coin <= best_coin) continue;
        best = part;
        best_sum = sum;
        best_coin = coin;
      }
      target_[at(v)] = best;
      held_[at(v)] = links.to(own);
      gain_[at(v)] = best_sum - links.to(own);
    }
    progress.advance(last - first);
  });
}

void JetStepsCpu::collect(const JetRound& round) {
  pool_.parallel_for(graph_.num_nodes, kJetGrain, [&](Count first, Count last) {
    for (Count v = first; v < last; ++v) {
      const bool worth = target_[at(v)] >= 0 &&
                         (gain_[at(v)] >= 0 || static_cast<double>(-gain_[at(v)]) <
                                                   round.temperature * static_cast<double>(held_[at(v)]));
      state_[at(v)] = worth && takes_part(v, round) ? kCandidate : kResting;
    }
  });
}

/// Whether a node takes part: nodes rest after a move. When a round has not helped, half of all rest, or too
/// many at once would move back and forth between full parts.
bool JetStepsCpu::takes_part(Count v, const JetRound& round) const {
  if ((state_[at(v)] & kLocked) != 0) return false;
  const auto coin = mix32(static_cast<std::uint32_t>(v) ^ mix32(static_cast<std::uint32_t>(round.number)));
  return !round.damped || (coin & 1) != 0;
}

bool JetStepsCpu::goes_before(Count u, Count v) const {
  return gain_[at(u)] > gain_[at(v)] || (gain_[at(u)] == gain_[at(v)] && u < v);
}

/// Chooses the candidates that gain if the candidates before them have moved.
void JetStepsCpu::filter() {
  pool_.parallel_for(graph_.num_nodes, kJetGrain, [&](Count first, Count last) {
    graph_.release_pages();
    for (Count v = first; v < last; ++v) {
      if ((state_[at(v)] & kCandidate) == 0) continue;
      const std::int32_t from = part_of_[at(v)], to = target_[at(v)];
      Count gain = 0;
      for (Count e = graph_.begin[v]; e < graph_.begin[v + 1]; ++e) {
        const std::int32_t u = graph_.ids[e];
        const std::uint8_t state = std::atomic_ref{state_[at(u)]}.load(std::memory_order_relaxed);
        const std::int32_t part =
            (state & kCandidate) != 0 && goes_before(u, v) ? target_[at(u)] : part_of_[at(u)];
        if (part == to) gain += graph_.edge_weight(e);
        if (part == from) gain -= graph_.edge_weight(e);
      }
      if (gain > 0) std::atomic_ref{state_[at(v)]}.fetch_or(kChosen, std::memory_order_relaxed);
    }
  });
}

JetMoves JetStepsCpu::moves() {
  JetMoves moves;
  for (Count v = 0; v < graph_.num_nodes; ++v) {
    if ((state_[at(v)] & kChosen) == 0) {
      state_[at(v)] = kResting;
      continue;
    }
    state_[at(v)] = kLocked;
    moves.nodes.push_back(static_cast<std::int32_t>(v));
    moves.to.push_back(target_[at(v)]);
  }
  return moves;
}

/// Also notes the nodes that may have another best move now.
JetChange JetStepsCpu::account(std::vector<std::int32_t> touched) {
  std::vector<std::int32_t>& moved = touched;
  if (!std::is_sorted(moved.begin(), moved.end())) std::sort(moved.begin(), moved.end());
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  std::erase_if(moved, [this](std::int32_t v) { return part_of_[at(v)] == old_[at(v)]; });
  std::atomic<Count> twice{0};
  pool_.parallel_for(std::ssize(moved), kJetGrain, [&](Count first, Count last) {
    Count change = 0;
    FarReader<std::int32_t> ids{graph_.scratch, graph_.ids};
    FarReader<std::uint32_t> weights{graph_.scratch, graph_.edge_weights};
    for (Count i = first; i < last; ++i) {
      const std::int32_t v = moved[at(i)];
      const std::int32_t now = part_of_[at(v)], before = old_[at(v)];
      std::atomic_ref{stale_[at(v)]}.store(1, std::memory_order_relaxed);
      const Count degree = graph_.degree(v);
      const std::int32_t* const neighbors = ids.read(graph_.begin[v], degree);
      const std::uint32_t* const of_edges =
          graph_.edge_weights == nullptr ? nullptr : weights.read(graph_.begin[v], degree);
      for (Count e = 0; e < degree; ++e) {
        const std::int32_t u = neighbors[e];
        std::atomic_ref{stale_[at(u)]}.store(1, std::memory_order_relaxed);
        const Count share = part_of_[at(u)] == old_[at(u)] ? 2 : 1;  // else the neighbor counts the rest
        const int more = (now != part_of_[at(u)]) - (before != old_[at(u)]);
        change += more * share * (of_edges == nullptr ? 1 : of_edges[e]);
      }
    }
    twice += change;
  });
  for (const std::int32_t v : moved) old_[at(v)] = part_of_[at(v)];
  return {.moved = std::ssize(moved), .cut = twice / 2};
}

}  // namespace strata::partition
