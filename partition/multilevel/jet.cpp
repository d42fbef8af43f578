// SPDX-License-Identifier: Apache-2.0
#include "multilevel/jet.hpp"

#include <algorithm>
#include <limits>

#include "multilevel/balance_level.hpp"
#include "multilevel/jet_steps_cpu.hpp"

namespace strata::partition {
namespace {

class Jet {
 public:
  Jet(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of, const JetOptions& options,
      JetSteps& steps, ThreadPool& pool)
      : graph_{graph}, loads_{loads}, part_of_{part_of}, options_{options}, steps_{steps}, pool_{pool} {}

  Count run() {
    cut_ = steps_.cut();
    best_ = part_of_;
    best_cut_ = loads_.any_is_over() ? std::numeric_limits<Count>::max() : cut_;
    for (const double temperature : options_.temperatures) {
      series(temperature);
      restore();
    }
    return cut_;
  }

 private:
  void series(double temperature) {
    steps_.unlock();
    int idle = 0;
    damped_ = false;
    for (int round = 0; round < options_.most_rounds && idle < options_.patience; ++round) {
      if (options_.stop != nullptr) options_.stop->check();
      const Count moves = this->round(temperature);
      const bool fits = !loads_.any_is_over();
      ++idle;
      if (fits && cut_ < best_cut_) {
        if (best_cut_ == std::numeric_limits<Count>::max() || (best_cut_ - cut_) * 1000 >= best_cut_)
          idle = 0;
        best_cut_ = cut_;
        best_ = part_of_;
      }
      damped_ = damped_ || idle > 0;
      if (moves == 0) break;
    }
  }

  Count round(double temperature) {
    JetMoves moves = steps_.choose({.temperature = temperature, .damped = damped_, .number = ++rounds_});
    for (std::size_t i = 0; i < moves.nodes.size(); ++i) put(moves.nodes[i], moves.to[i]);
    std::vector<std::int32_t> touched = std::move(moves.nodes);
    if (loads_.any_is_over()) {
      const std::vector<std::int32_t> more = balance_level(graph_, loads_, part_of_, pool_, options_.stop);
      steps_.place(more);
      touched.insert(touched.end(), more.begin(), more.end());
    }
    return account(std::move(touched));
  }

  void put(std::int32_t v, std::int32_t part) {
    loads_.move(v, part_of_[at(v)], part);
    part_of_[at(v)] = part;
  }

  Count account(std::vector<std::int32_t> touched) {
    const JetChange change = steps_.account(std::move(touched));
    cut_ += change.cut;
    return change.moved;
  }

  /// Goes back to the best partition, if one within the limits was met.
  void restore() {
    if (best_cut_ == std::numeric_limits<Count>::max()) return;
    std::vector<std::int32_t> moved;
    for (Count v = 0; v < graph_.num_nodes; ++v) {
      if (part_of_[at(v)] == best_[at(v)]) continue;
      put(static_cast<std::int32_t>(v), best_[at(v)]);
      moved.push_back(static_cast<std::int32_t>(v));
    }
    steps_.place(moved);
    account(std::move(moved));
  }

  const LevelGraph& graph_;
  Loads& loads_;
  std::vector<std::int32_t>& part_of_;
  const JetOptions& options_;
  JetSteps& steps_;
  ThreadPool& pool_;
  std::vector<std::int32_t> best_;
  Count cut_ = 0, best_cut_ = 0;
  bool damped_ = false;
  int rounds_ = 0;
};

}  // namespace

Count refine_jet(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of,
                 const JetOptions& options, JetSteps& steps, ThreadPool& pool) {
  return Jet{graph, loads, part_of, options, steps, pool}.run();
}

Count refine_jet(const LevelGraph& graph, Loads& loads, std::vector<std::int32_t>& part_of,
                 const JetOptions& options, ThreadPool& pool) {
  JetStepsCpu steps{graph, part_of, loads.num_parts(), pool};
  return refine_jet(graph, loads, part_of, options, steps, pool);
}

}  // namespace strata::partition
