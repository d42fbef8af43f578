// SPDX-License-Identifier: Apache-2.0
#include "multilevel/multilevel.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <numeric>
#include <utility>

#include "multilevel/balance_level.hpp"
#include "multilevel/contract.hpp"
#include "multilevel/initial.hpp"
#include "multilevel/jet.hpp"
#include "multilevel/local_search.hpp"
#include "strata/util/random.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {
namespace {

using Parts = std::vector<std::int32_t>;

constexpr Count kNodesPerPart = 60, kLeastNodes = 2000;  // of the coarsest graph

constexpr double kNoCommunities = 0.97;  // of the weight leads from one cluster to another
constexpr int kMetisTries = 5;           // on small graphs that METIS cuts as a whole, too

/// The work that a graph is worth. Measured (benchmarks/partition): many levels and searches at a loss pay on
/// meshes; on large social graphs large clusters and plain gains cut nearly as little in a tenth of the time.
struct Effort {
  double growth;      ///< a cluster may weigh this many times the level's mean node
  double fill;        ///< ... but at most this many times the mean node of the coarsest graph
  int initial_tries;  ///< partitions of the coarsest graph, of which the best stays
  int cycles;         ///< the second and later ones begin with the partition of the one before
  JetOptions jet;
  Count search_entries;  ///< most entries of a level for the local search
};

Effort effort_for(const LevelGraph& graph, bool strong) {
  const JetOptions thorough{.temperatures = {0.75, 0.375, 0}, .patience = 8};
  if (graph.num_entries() <= kSmallGraph) {
    return {.growth = 4,
            .fill = 2,
            .initial_tries = strong ? 8 : 4,
            .cycles = strong ? 3 : 1,
            .jet = thorough,
            .search_entries = kSmallGraph};
  }
  return {.growth = 1000,
          .fill = 3,
          .initial_tries = strong ? 8 : 2,
          .cycles = strong ? 3 : 1,
          .jet = strong ? thorough : JetOptions{.temperatures = {0}, .patience = 3},
          .search_entries = strong ? Count{1} << 26 : 3'000'000};
}

/// Logs what a phase did, and how fast; only for large levels, because small ones take no time.
class Note {
 public:
  explicit Note(const LevelGraph& graph)
      : entries_{graph.num_entries()}, start_{std::chrono::steady_clock::now()} {}

  /// Logs a phase that will take time without a sign of life.
  void announce(const std::string& what) const { spdlog::log(level(), "{}", what); }

  void say(const std::string& what) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    spdlog::log(level(), "{} in {} ({:.1f} M neighbor entries/s)", what, format_seconds(seconds.count()),
                static_cast<double>(entries_) / 1e6 / seconds.count());
  }

 private:
  spdlog::level::level_enum level() const {
    return entries_ > 4 * kSmallGraph ? spdlog::level::info : spdlog::level::debug;
  }

  Count entries_;
  std::chrono::steady_clock::time_point start_;
};

struct Level {
  LevelGraph graph;
  Clusters clusters;  // of the next finer level: the nodes of this graph
};

/// Whether lists lie on disk: METIS and the local search keep a multiple of them in memory.
bool is_stored(const LevelGraph& graph) { return graph.scratch != nullptr; }

class Multilevel {
 public:
  Multilevel(const LevelGraph& finest, const MultilevelOptions& options, ThreadPool& pool)
      : finest_{finest},
        options_{options},
        pool_{pool},
        effort_{effort_for(finest, options.strong)},
        totals_{total_weights(finest)},
        least_nodes_{std::max(kLeastNodes, kNodesPerPart * options.num_parts)} {}

  Parts run() {
    Parts best = cycle({});
    Score best_score = score(finest_, best, options_.limits);
    const auto consider = [&](Parts parts) {
      const Score mine = score(finest_, parts, options_.limits);
      if (mine >= best_score) return;
      best = std::move(parts);
      best_score = mine;
    };
    for (cycle_ = 1; cycle_ < effort_.cycles; ++cycle_) consider(cycle(best));
    if (options_.try_metis && !is_stored(finest_) && finest_.num_entries() <= kSmallGraph)
      consider(initial(finest_, kMetisTries));
    return best;
  }

 private:
  using Score = std::pair<Count, Count>;  // weight above the limits, cut

  void check_stop() const {
    if (options_.stop != nullptr) options_.stop->check();
  }

  Score score(const LevelGraph& graph, const Parts& parts, const std::vector<Count>& limits) const {
    const Loads loads{graph, parts, options_.num_parts, limits};
    return {loads.total_excess(), cut_of(graph, parts, pool_)};
  }

  std::uint64_t key(int use) const {
    return mix64(mix64(options_.seed) + static_cast<std::uint64_t>(cycle_ * 1024 + use));
  }

  /// Goes down and up once. With a partition given, clusters stay within its parts, so that the coarsest
  /// graph inherits it.
  Parts cycle(Parts given) {
    const bool again = !given.empty();
    std::list<Level> levels;
    coarsen(levels, again ? &given : nullptr);
    const LevelGraph& coarsest = levels.empty() ? finest_ : levels.back().graph;
    if (again) {
      refine(coarsest, given);
    } else {
      if (exceeds_metis(coarsest) && loose_.count == 0) loose_ = nodes_as_clusters(coarsest);
      given = loose_.count > 0 ? scattered(coarsest) : initial(coarsest, effort_.initial_tries);
    }
    while (!levels.empty()) {
      const Clusters& clusters = levels.back().clusters;
      Parts fine(clusters.of_node.size());
      for (std::size_t v = 0; v < fine.size(); ++v) fine[v] = given[at(clusters.of_node[v])];
      given = std::move(fine);
      levels.pop_back();
      refine(levels.empty() ? finest_ : levels.back().graph, given);
    }
    return given;
  }

  /// Whether METIS would take more memory than a graph on disk has.
  static bool exceeds_metis(const LevelGraph& graph) {
    constexpr std::int64_t kMetisEntryBytes = 40;  // measured
    return is_stored(graph) && graph.num_entries() * kMetisEntryBytes > graph.scratch->capacity() / 4 * 3;
  }

  static Clusters nodes_as_clusters(const LevelGraph& graph) {
    Clusters clusters{std::vector<std::int32_t>(at(graph.num_nodes)), graph.num_nodes};
    std::iota(clusters.of_node.begin(), clusters.of_node.end(), 0);
    return clusters;
  }

  std::vector<Count> cluster_limits(const LevelGraph& graph) const {
    std::vector<Count> limits;
    for (const Count total : totals_) {
      const double mean = static_cast<double>(total) / static_cast<double>(graph.num_nodes);
      const double coarsest = static_cast<double>(total) / static_cast<double>(least_nodes_);
      limits.push_back(std::max<Count>(
          1, static_cast<Count>(std::max(mean, std::min(effort_.growth * mean, effort_.fill * coarsest)))));
    }
    return limits;
  }

  bool accelerates(const LevelGraph& graph) const {
    return options_.accelerator != nullptr && options_.accelerator->suits(graph);
  }

  Clusters clusters_for(const LevelGraph& graph, const ClusterOptions& how) {
    if (!accelerates(graph)) return cluster(graph, how, pool_);
    return clusters_of(graph, how, options_.accelerator->propagate(graph, how));
  }

  Count lower_cut(const LevelGraph& graph, Loads& loads, Parts& parts) {
    JetOptions how = effort_.jet;
    how.stop = options_.stop;
    if (!accelerates(graph)) return refine_jet(graph, loads, parts, how, pool_);
    const auto steps = options_.accelerator->jet_steps(graph, parts, options_.num_parts);
    return refine_jet(graph, loads, parts, how, *steps, pool_);
  }

  /// The share of the weight of all edges that leads from one cluster to another.
  double share_between(const LevelGraph& graph, const Clusters& clusters) const {
    const Count weight = total_edge_weight(graph, pool_);
    if (weight == 0) return 0;
    return 2.0 * static_cast<double>(cut_of(graph, clusters.of_node, pool_)) / static_cast<double>(weight);
  }

  /// Appends levels until METIS can take the last one, clusters no longer get fewer, or a large graph turns
  /// out to have no communities. `within`, if there is one, follows.
  void coarsen(std::list<Level>& levels, Parts* within) {
    const LevelGraph* graph = &finest_;
    while (graph->num_nodes > least_nodes_) {
      check_stop();
      const Note note{*graph};
      Clusters clusters = clusters_for(*graph, {.limits = cluster_limits(*graph),
                                                .rounds = 3,
                                                .seed = key(static_cast<int>(levels.size())),
                                                .within = within});
      note.say(fmt::format("{} nodes in {} clusters", format_count(graph->num_nodes),
                           format_count(clusters.count)));
      if (clusters.count * 100 > graph->num_nodes * 95) {
        if (within == nullptr && is_stored(*graph)) loose_ = std::move(clusters);
        break;
      }
      if ((levels.empty() || is_stored(*graph)) && graph->num_entries() > kSmallGraph &&
          share_between(*graph, clusters) > kNoCommunities) {
        if (within == nullptr) loose_ = std::move(clusters);
        break;
      }
      const Note contraction{*graph};
      LevelGraph coarse = contract(*graph, clusters, pool_);
      contraction.say(fmt::format("contracted to {} neighbor entries", format_count(coarse.num_entries())));
      if (within != nullptr) {
        Parts next(at(clusters.count));
        for (std::size_t v = 0; v < clusters.of_node.size(); ++v)
          next[at(clusters.of_node[v])] = (*within)[v];
        *within = std::move(next);
      }
      levels.push_back({std::move(coarse), std::move(clusters)});
      graph = &levels.back().graph;
    }
  }

  /// Clusters dealt to parts at random, refined: as good as METIS where there are no communities, and it
  /// takes no coarse graphs, which would have nearly as many edges as the graph itself.
  Parts scattered(const LevelGraph& graph) {
    Parts parts(at(graph.num_nodes));
    const auto count = static_cast<std::uint64_t>(loose_.count);
    const Shuffle order{count, key(50)};
    for (std::size_t v = 0; v < parts.size(); ++v) {
      const std::uint64_t place = order(static_cast<std::uint64_t>(loose_.of_node[v]));
      parts[v] = static_cast<std::int32_t>(place * static_cast<std::uint64_t>(options_.num_parts) / count);
    }
    loose_ = {};
    refine(graph, parts);
    return parts;
  }

  /// The best of several partitions by METIS, each of them refined.
  Parts initial(const LevelGraph& graph, int tries) {
    Parts best;
    Score best_score;
    const Note note{graph};
    note.announce(fmt::format("METIS cuts {} nodes, {} neighbor entries", format_count(graph.num_nodes),
                              format_count(graph.num_entries())));
    for (int i = 0; i < tries; ++i) {
      check_stop();
      Parts parts = initial_parts(
          graph, {.num_parts = options_.num_parts, .imbalance = options_.imbalance, .seed = key(100 + i)});
      refine(graph, parts);
      const Score mine = score(graph, parts, options_.limits);
      if (!best.empty() && mine >= best_score) continue;
      best = std::move(parts);
      best_score = mine;
    }
    note.say(fmt::format("partitioned {} nodes, cut {}", format_count(graph.num_nodes),
                         format_count(best_score.second)));
    return best;
  }

  /// The limits of a level: wider than those asked for only as far as the partition and the level's heavy
  /// nodes need it.
  std::vector<Count> limits_for(const LevelGraph& graph, const Parts& parts) const {
    std::vector<Count> limits = options_.limits;
    if (&graph == &finest_) return limits;
    const Loads loads{graph, parts, options_.num_parts, limits};
    const std::vector<Count> heaviest = heaviest_nodes(graph);
    for (std::size_t c = 0; c < limits.size(); ++c) {
      Count fullest = 0;
      for (int part = 0; part < options_.num_parts; ++part)
        fullest = std::max(fullest, loads.load(part, static_cast<int>(c)));
      const Count widest = totals_[c] / options_.num_parts + heaviest[c];
      limits[c] = std::max(limits[c], std::min(fullest, widest));
    }
    return limits;
  }

  void refine(const LevelGraph& graph, Parts& parts) {
    check_stop();
    const Note note{graph};
    Loads loads{graph, parts, options_.num_parts, limits_for(graph, parts)};
    if (loads.any_is_over()) balance_level(graph, loads, parts, pool_, options_.stop);
    Count cut = lower_cut(graph, loads, parts);
    if (graph.num_entries() <= effort_.search_entries && !is_stored(graph) &&
        local_search_pays(graph, options_.num_parts))
      cut -= search_locally(graph, loads, parts, {.seed = key(200)});
    note.say(fmt::format("refined {} nodes, cut {}", format_count(graph.num_nodes), format_count(cut)));
  }

  const LevelGraph& finest_;
  const MultilevelOptions& options_;
  ThreadPool& pool_;
  const Effort effort_;
  const std::vector<Count> totals_;
  const Count least_nodes_;
  int cycle_ = 0;
  Clusters loose_;  // of the coarsest graph, if they hold so few edges that they were not contracted
};

}  // namespace

std::vector<std::int32_t> multilevel_parts(const LevelGraph& graph, const MultilevelOptions& options,
                                           ThreadPool& pool) {
  if (options.num_parts == 1) return Parts(at(graph.num_nodes), 0);
  return Multilevel{graph, options, pool}.run();
}

}  // namespace strata::partition
