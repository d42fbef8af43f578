// SPDX-License-Identifier: Apache-2.0
#include "multilevel/local_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "strata/util/random.hpp"

namespace strata::partition {
namespace {

constexpr Count kMostCells = Count{1} << 26;
constexpr Count kMostEntries = Count{1} << 26;
constexpr int kSeeds = 8;

/// Decides when a search that no longer gains is hopeless: Osipov and Sanders' rule, which takes the gains
/// since the best point for a random walk.
class Patience {
 public:
  explicit Patience(Count num_nodes) : base_{std::log(static_cast<double>(num_nodes) + 1)} {}
  void reset() { *this = Patience{base_}; }
  void add(Count gain) {
    ++steps_;
    const double delta = static_cast<double>(gain) - mean_;
    mean_ += delta / steps_;
    squares_ += delta * (static_cast<double>(gain) - mean_);
  }
  bool is_over() const {
    if (steps_ < 2 * base_) return false;
    const double variance = squares_ / (steps_ - 1);
    return mean_ < 0 ? steps_ * mean_ * mean_ > variance + base_ : steps_ > 50 * base_;
  }

 private:
  explicit Patience(double base) : base_{base} {}
  double base_, steps_ = 0, mean_ = 0, squares_ = 0;
};

class LocalSearch {
 public:
  LocalSearch(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of,
              const LocalSearchOptions& options)
      : graph_{graph},
        loads_{loads},
        part_of_{part_of},
        options_{options},
        parts_{loads.num_parts()},
        table_(at(graph.num_nodes * parts_)),
        key_(at(graph.num_nodes)),
        state_(at(graph.num_nodes)) {
    for (Count v = 0; v < graph.num_nodes; ++v)
      for (Count e = graph.begin[v]; e < graph.begin[v + 1]; ++e)
        table_[at(v * parts_ + part_of[at(graph.ids[e])])] +=
            static_cast<std::uint32_t>(graph.edge_weight(e));
  }

  Count run() {
    Count cut = 0, saved = 0;
    for (Count v = 0; v < graph_.num_nodes; ++v)
      for (Count p = 0; p < parts_; ++p)
        if (p != part_of_[at(v)]) cut += table_[at(v * parts_ + p)];
    cut /= 2;
    for (int round = 0; round < options_.most_rounds; ++round) {
      const Count gain = this->round(round);
      saved += gain;
      if (static_cast<double>(gain) <= options_.least_gain * static_cast<double>(cut - saved)) break;
    }
    return saved;
  }

 private:
  enum State : std::uint8_t { kFree, kQueued, kMoved };
  struct Entry {
    Count gain;
    std::uint32_t coin;
    std::int32_t node;
    bool operator<(const Entry& other) const {
      return gain != other.gain   ? gain < other.gain
             : coin != other.coin ? coin < other.coin
                                  : node < other.node;
    }
  };
  struct Choice {
    std::int32_t part = -1;
    Count gain = std::numeric_limits<Count>::min();
  };
  struct Step {
    std::int32_t node, from;
  };

  const std::uint32_t* links(Count v) const { return table_.data() + v * parts_; }

  Choice best_of(Count v) const {
    const std::uint32_t* to = links(v);
    const std::int32_t own = part_of_[at(v)];
    Choice best;
    for (std::int32_t p = 0; p < parts_; ++p) {
      if (to[p] == 0 || p == own) continue;
      const Count gain = Count{to[p]} - to[own];
      if (gain < best.gain || !loads_.has_room(v, p)) continue;
      if (gain == best.gain && loads_.fullness(p) >= loads_.fullness(best.part)) continue;
      best = {p, gain};
    }
    return best;
  }

  bool is_on_border(Count v) const {
    const std::int32_t own = part_of_[at(v)];
    for (Count e = graph_.begin[v]; e < graph_.begin[v + 1]; ++e)
      if (part_of_[at(graph_.ids[e])] != own) return true;
    return false;
  }

  Count round(int number) {
    std::vector<std::int32_t> border;
    for (Count v = 0; v < graph_.num_nodes; ++v)
      if (is_on_border(v)) border.push_back(static_cast<std::int32_t>(v));
    std::fill(state_.begin(), state_.end(), kFree);
    salt_ =
        mix32(static_cast<std::uint32_t>(options_.seed) + static_cast<std::uint32_t>(number) * 0x9E3779B9u);
    const Shuffle order{border.size(), mix64(options_.seed + static_cast<std::uint64_t>(number))};
    Count saved = 0;
    std::size_t next = 0;
    while (next < border.size()) {
      for (int seeds = 0; seeds < kSeeds && next < border.size(); ++next) {
        const std::int32_t v = border[order(next)];
        if (state_[at(v)] != kFree) continue;
        offer(v);
        ++seeds;
      }
      saved += search();
    }
    return saved;
  }

  /// Puts a node into the queue if it can move and is not there with this gain or a higher one.
  void offer(std::int32_t v) {
    const Choice choice = best_of(v);
    if (choice.part < 0) return;
    if (state_[at(v)] == kQueued && key_[at(v)] >= choice.gain) return;
    if (state_[at(v)] == kFree) queued_.push_back(v);
    state_[at(v)] = kQueued;
    key_[at(v)] = choice.gain;
    queue_.push({choice.gain, mix32(static_cast<std::uint32_t>(v) ^ salt_), v});
  }

  Count search() {
    Count total = 0, best = 0;
    std::size_t best_steps = 0;
    steps_.clear();
    Patience patience{graph_.num_nodes};
    while (!queue_.empty() && !patience.is_over()) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (state_[at(entry.node)] != kQueued || key_[at(entry.node)] != entry.gain) continue;
      const Choice choice = best_of(entry.node);
      if (choice.part < 0) continue;
      if (choice.gain < entry.gain) {
        key_[at(entry.node)] = choice.gain;
        queue_.push({choice.gain, entry.coin, entry.node});
        continue;
      }
      steps_.push_back({entry.node, part_of_[at(entry.node)]});
      state_[at(entry.node)] = kMoved;
      move(entry.node, choice.part);
      total += choice.gain;
      patience.add(choice.gain);
      if (total > best) {
        best = total;
        best_steps = steps_.size();
        patience.reset();
      }
      for (Count e = graph_.begin[entry.node]; e < graph_.begin[entry.node + 1]; ++e)
        if (state_[at(graph_.ids[e])] != kMoved) offer(graph_.ids[e]);
    }
    finish(best_steps);
    return best;
  }

  /// Goes back to the best point, and empties the queue.
  void finish(std::size_t best_steps) {
    while (steps_.size() > best_steps) {
      move(steps_.back().node, steps_.back().from);
      steps_.pop_back();
    }
    queue_ = {};
    for (const std::int32_t v : queued_)
      if (state_[at(v)] == kQueued) state_[at(v)] = kFree;
    queued_.clear();
  }

  void move(std::int32_t v, std::int32_t to) {
    const std::int32_t from = part_of_[at(v)];
    loads_.move(v, from, to);
    part_of_[at(v)] = to;
    for (Count e = graph_.begin[v]; e < graph_.begin[v + 1]; ++e) {
      std::uint32_t* links = table_.data() + Count{graph_.ids[e]} * parts_;
      const auto weight = static_cast<std::uint32_t>(graph_.edge_weight(e));
      links[from] -= weight;
      links[to] += weight;
    }
  }

  const LevelGraph& graph_;
  Loads& loads_;
  std::vector<std::int32_t>& part_of_;
  const LocalSearchOptions& options_;
  const Count parts_;
  std::vector<std::uint32_t> table_;  // [node][part]: weight of the edges that lead there
  std::vector<Count> key_;            // gain with which a node is in the queue
  std::vector<State> state_;
  std::priority_queue<Entry> queue_;
  std::vector<std::int32_t> queued_;
  std::vector<Step> steps_;
  std::uint32_t salt_ = 0;
};

}  // namespace

bool local_search_pays(const LevelGraph& graph, int num_parts) {
  return graph.num_nodes <= kMostCells / num_parts && graph.num_entries() <= kMostEntries;
}

Count search_locally(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of,
                     const LocalSearchOptions& options) {
  return LocalSearch{graph, loads, part_of, options}.run();
}

}  // namespace strata::partition
