// SPDX-License-Identifier: Apache-2.0
#include "multilevel/balance_level.hpp"

#include <algorithm>
#include <limits>

#include "multilevel/scratch.hpp"

namespace strata::partition {
namespace {

constexpr Count kBalanceGrain = Count{1} << 12;
constexpr double kEased = 0.99;   // of a limit
constexpr int kMostEasings = 30;  // of one call

class Balancer {
 public:
  Balancer(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of, ThreadPool& pool,
           const StopFlag* stop)
      : graph_{graph}, loads_{loads}, part_of_{part_of}, pool_{pool}, stop_{stop} {}

  std::vector<std::int32_t> run() {
    while (loads_.any_is_over()) {
      check_stop();
      const std::size_t before = moved_.size();
      for (int c = 0; c < loads_.num_constraints(); ++c) relieve(c);
      if (moved_.size() == before && (loads_.num_constraints() == 1 || !ease())) break;
    }
    return std::move(moved_);
  }

 private:
  void check_stop() const {
    if (stop_ != nullptr) stop_->check();
  }

  struct Move {
    float loss;  ///< further weight cut per unit of load
    std::int32_t node;
  };

  /// The linked part with room that most weight leads to; else the emptiest part with room; else -1.
  std::int32_t best_target(Count node, const Links& links) const {
    const std::int32_t from = part_of_[at(node)];
    std::int32_t best = -1;
    for (const std::int32_t part : links.parts()) {
      if (part == from || !loads_.has_room(node, part)) continue;
      if (best < 0 || links.to(part) > links.to(best)) best = part;
    }
    if (best >= 0) return best;
    double least = std::numeric_limits<double>::max();
    for (int part = 0; part < loads_.num_parts(); ++part) {
      if (part == from || !loads_.has_room(node, part)) continue;
      if (const double fullness = loads_.fullness(part); fullness < least) {
        best = part;
        least = fullness;
      }
    }
    return best;
  }

  void relieve(int c) {
    std::vector<std::vector<Move>> found(at((graph_.num_nodes + kBalanceGrain - 1) / kBalanceGrain));
    pool_.parallel_for(graph_.num_nodes, kBalanceGrain, [&](Count first, Count last) {
      graph_.release_pages();
      Shelf<Links>::Loan loan{shelf_};
      for (Count v = first; v < last; ++v) {
        const std::int32_t from = part_of_[at(v)];
        const Count weight = graph_.weight(v, c);
        if (weight == 0 || loads_.excess(from, c) <= 0) continue;
        (*loan).count(
            graph_, [this](std::int32_t u) { return part_of_[at(u)]; }, v, loads_.num_parts());
        const std::int32_t target = best_target(v, *loan);
        if (target < 0) continue;
        const auto loss = static_cast<float>((*loan).to(from) - (*loan).to(target));
        const auto scale = static_cast<float>(weight);
        found[at(first / kBalanceGrain)].push_back(
            {loss > 0 ? loss / scale : loss * scale, static_cast<std::int32_t>(v)});
      }
    });
    std::vector<Move> moves;
    for (const auto& some : found) moves.insert(moves.end(), some.begin(), some.end());
    std::stable_sort(moves.begin(), moves.end(),
                     [](const Move& a, const Move& b) { return a.loss < b.loss; });
    Shelf<Links>::Loan loan{shelf_};
    PageReleaser releaser{graph_.scratch};
    for (const Move& move : moves) {
      apply(move.node, c, *loan);
      releaser.step();
    }
  }

  /// How far a part's loads are above its limits with a node added (sign 1) or removed (-1): the sum of
  /// squares, so that several small excesses are better than a large one. A nearly full part counts a little.
  double pressure(std::int32_t part, Count node, int sign) const {
    double sum = 0;
    for (int c = 0; c < loads_.num_constraints(); ++c) {
      const auto limit = static_cast<double>(loads_.limits()[at(c)]);
      const auto load = static_cast<double>(loads_.load(part, c) + sign * graph_.weight(node, c));
      const double above = std::max(load / limit - kEased, 0.0);
      sum += above * above;
    }
    return sum;
  }

  /// Where no part has room under all constraints: moves nodes that lower the pressure on both parts
  /// together, even if the target exceeds a limit then. Returns whether any moved.
  bool ease() {
    const std::size_t before = moved_.size();
    if (eased_++ == kMostEasings) return false;
    for (Count v = 0; v < graph_.num_nodes; ++v) {
      if (v % kBalanceGrain == 0) check_stop();
      const std::int32_t from = part_of_[at(v)];
      if (!loads_.is_over(from)) continue;
      const double relief = pressure(from, v, 0) - pressure(from, v, -1);
      std::int32_t best = -1;
      double most = 1e-12;
      // No part gains more than the relief.
      for (std::int32_t part = 0; part < loads_.num_parts() && most < relief; ++part) {
        if (part == from) continue;
        const double gain = relief - (pressure(part, v, 1) - pressure(part, v, 0));
        if (gain <= most) continue;
        best = part;
        most = gain;
      }
      if (best >= 0) move(static_cast<std::int32_t>(v), best);
    }
    return moved_.size() > before;
  }

  void move(std::int32_t node, std::int32_t target) {
    loads_.move(node, part_of_[at(node)], target);
    part_of_[at(node)] = target;
    moved_.push_back(node);
  }

  void apply(std::int32_t node, int c, Links& links) {
    const std::int32_t from = part_of_[at(node)];
    if (loads_.excess(from, c) <= 0) return;
    links.count(
        graph_, [this](std::int32_t u) { return part_of_[at(u)]; }, node, loads_.num_parts());
    const std::int32_t target = best_target(node, links);
    if (target >= 0) move(node, target);
  }

  const LevelGraph& graph_;
  Loads& loads_;
  std::vector<std::int32_t>& part_of_;
  ThreadPool& pool_;
  const StopFlag* stop_;
  std::vector<std::int32_t> moved_;
  int eased_ = 0;
  Shelf<Links> shelf_;
};

}  // namespace

std::vector<std::int32_t> balance_level(const LevelGraph& graph, Loads& loads,
                                        std::vector<std::int32_t>& part_of, ThreadPool& pool,
                                        const StopFlag* stop) {
  return Balancer{graph, loads, part_of, pool, stop}.run();
}

}  // namespace strata::partition
