// SPDX-License-Identifier: Apache-2.0
#include "multilevel/cluster.hpp"

#include <algorithm>
#include <numeric>

#include "multilevel/chunks.hpp"
#include "multilevel/scratch.hpp"
#include "strata/util/log.hpp"

namespace strata::partition {
namespace {

/// Whether a cluster with this load, by constraint, has room for a node.
bool has_room(const LevelGraph& graph, const std::vector<Count>& limits, Count node, const Count* load) {
  for (int c = 0; c < graph.num_constraints; ++c) {
    const Count w = graph.weight(node, c);
    if (w > 0 && load[c] + w > limits[at(c)]) return false;
  }
  return true;
}

void move_load(const LevelGraph& graph, Count node, Count* from, Count* to) {
  for (int c = 0; c < graph.num_constraints; ++c) {
    const Count w = graph.weight(node, c);
    from[c] -= w;
    to[c] += w;
  }
}

class Propagation {
 public:
  Propagation(const LevelGraph& graph, const ClusterOptions& options, ThreadPool& pool)
      : graph_{graph},
        options_{options},
        pool_{pool},
        constraints_{graph.num_constraints},
        label_(at(graph.num_nodes)),
        next_(at(graph.num_nodes)),
        favorite_(at(graph.num_nodes), -1) {
    std::iota(label_.begin(), label_.end(), 0);
    next_ = label_;
    load_.assign(at(graph.num_nodes * constraints_), 1);
    if (!graph.node_weights.empty()) load_ = graph.node_weights;
  }

  Labels run() {
    ProgressBar progress("cluster nodes", graph_.num_nodes * options_.rounds, "nodes");
    for (int round = 0; round < options_.rounds; ++round) {
      moves_ = 0;
      const Chunks chunks{graph_.num_nodes, key_of_round(options_, round)};
      chunks.run(
          pool_, [&](Chunks::Range range) { choose(range, round); },
          [&](Chunks::Range range) {
            settle(range);
            progress.advance(range.end - range.begin);
          });
      if (has_settled(graph_, moves_)) break;
    }
    return {std::move(label_), std::move(favorite_), std::move(load_)};
  }

 private:
  Count* load(std::int32_t cluster) { return load_.data() + cluster * constraints_; }
  bool fits(Count node, std::int32_t cluster) {
    return has_room(graph_, options_.limits, node, load(cluster));
  }

  bool may_meet(Count a, Count b) const {
    return options_.within == nullptr || (*options_.within)[at(a)] == (*options_.within)[at(b)];
  }

  void choose(Chunks::Range range, int round) {
    graph_.release_pages();
    Shelf<Sums>::Loan loan{shelf_};
    Sums& sums = *loan;
    for (Count v = range.begin; v < range.end; ++v) {
      sums.reset(graph_.degree(v));
      for (Count e = graph_.begin[v]; e < graph_.begin[v + 1]; ++e) {
        const std::int32_t u = graph_.ids[e];
        if (!may_meet(u, v)) continue;
        const bool near = u >= range.begin && u < range.end;
        sums.add(near ? next_[at(u)] : label_[at(u)], graph_.edge_weight(e));
      }
      next_[at(v)] = best_of(sums, v, round);
    }
  }

  /// The cluster with room that most weight leads to; between equal ones a keyed coin decides.
  std::int32_t best_of(const Sums& sums, Count v, int round) {
    const std::int32_t own = label_[at(v)];
    std::int32_t best = own, favorite = -1;
    Count best_sum = 0, favorite_sum = 0;
    std::uint32_t best_coin = 0;
    sums.visit([&](std::int32_t cluster, Count sum) {
      if (cluster != own && sum > favorite_sum) {
        favorite = cluster;
        favorite_sum = sum;
      }
      if (sum < best_sum || (cluster != own && !fits(v, cluster))) return;
      const std::uint32_t coin =
          mix32(static_cast<std::uint32_t>(cluster) ^
                mix32(static_cast<std::uint32_t>(v) + 0x9E3779B9u * static_cast<std::uint32_t>(round + 1)));
      if (sum == best_sum && coin <= best_coin) return;
      best = cluster;
      best_sum = sum;
      best_coin = coin;
    });
    favorite_[at(v)] = favorite;
    return best;
  }

  void settle(Chunks::Range range) {
    for (Count v = range.begin; v < range.end; ++v) {
      const std::int32_t to = next_[at(v)], from = label_[at(v)];
      if (to == from) continue;
      if (!fits(v, to)) {
        next_[at(v)] = from;
        continue;
      }
      move(v, from, to);
    }
  }

  void move(Count v, std::int32_t from, std::int32_t to) {
    move_load(graph_, v, load(from), load(to));
    label_[at(v)] = to;
    ++moves_;
  }

  const LevelGraph& graph_;
  const ClusterOptions& options_;
  ThreadPool& pool_;
  const Count constraints_;
  std::vector<std::int32_t> label_;     // as settled
  std::vector<std::int32_t> next_;      // as the node's chunk decided
  std::vector<std::int32_t> favorite_;  // with or without room
  std::vector<Count> load_;             // [cluster][constraint]
  Count moves_ = 0;
  Shelf<Sums> shelf_;
};

class Joining {
 public:
  Joining(const LevelGraph& graph, const ClusterOptions& options, Labels labels)
      : graph_{graph}, options_{options}, labels_{std::move(labels)} {}

  Clusters run() {
    join_singles();
    return number();
  }

 private:
  Count* load(std::int32_t cluster) { return labels_.load.data() + Count{cluster} * graph_.num_constraints; }

  /// Joins nodes that are clusters of their own and favor the same cluster, which is full: leaves of a star,
  /// for example. Nodes without neighbors favor none, and join each other.
  void join_singles() {
    std::vector<std::int32_t> members(at(graph_.num_nodes));
    for (const std::int32_t cluster : labels_.label) ++members[at(cluster)];
    std::vector<std::int32_t> singles;
    for (Count v = 0; v < graph_.num_nodes; ++v)
      if (labels_.label[at(v)] == v && members[at(v)] == 1) singles.push_back(static_cast<std::int32_t>(v));
    const auto key = [&](std::int32_t v) {
      const std::int32_t favorite = labels_.favorite[at(v)];
      const std::int32_t group = options_.within == nullptr ? 0 : (*options_.within)[at(v)];
      return std::pair{group, favorite < 0 ? -1 : labels_.label[at(favorite)]};
    };
    std::stable_sort(singles.begin(), singles.end(),
                     [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
    std::int32_t host = -1;
    for (const std::int32_t v : singles) {
      if (host >= 0 && key(host) == key(v) && has_room(graph_, options_.limits, v, load(host))) {
        move_load(graph_, v, load(v), load(host));
        labels_.label[at(v)] = host;
      } else {
        host = v;
      }
    }
  }

  Clusters number() {
    Clusters result{std::move(labels_.favorite), 0};
    std::vector<std::int32_t> id(at(graph_.num_nodes), -1);
    for (Count v = 0; v < graph_.num_nodes; ++v) {
      std::int32_t& mine = id[at(labels_.label[at(v)])];
      if (mine < 0) mine = static_cast<std::int32_t>(result.count++);
      result.of_node[at(v)] = mine;
    }
    return result;
  }

  const LevelGraph& graph_;
  const ClusterOptions& options_;
  Labels labels_;
};

}  // namespace

std::uint64_t key_of_round(const ClusterOptions& options, int round) {
  return mix64(options.seed * 64 + static_cast<std::uint64_t>(round));
}

Labels propagate(const LevelGraph& graph, const ClusterOptions& options, ThreadPool& pool) {
  return Propagation{graph, options, pool}.run();
}

Clusters clusters_of(const LevelGraph& graph, const ClusterOptions& options, Labels labels) {
  return Joining{graph, options, std::move(labels)}.run();
}

Clusters cluster(const LevelGraph& graph, const ClusterOptions& options, ThreadPool& pool) {
  return clusters_of(graph, options, propagate(graph, options, pool));
}

}  // namespace strata::partition
