// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "multilevel/jet_steps.hpp"
#include "multilevel/scratch.hpp"

namespace strata::partition {

/// JetSteps on the threads of a pool. Refers to all that it is made of.
class JetStepsCpu final : public JetSteps {
 public:
  JetStepsCpu(const LevelGraph& graph, const std::vector<std::int32_t>& part_of, int num_parts,
              ThreadPool& pool);

  Count cut() override;
  void unlock() override;
  JetMoves choose(const JetRound& round) override;
  void place(const std::vector<std::int32_t>&) override {}
  JetChange account(std::vector<std::int32_t> touched) override;

 private:
  void look();
  void collect(const JetRound& round);
  bool takes_part(Count v, const JetRound& round) const;
  bool goes_before(Count u, Count v) const;
  void filter();
  JetMoves moves();

  const LevelGraph& graph_;
  const std::vector<std::int32_t>& part_of_;
  int num_parts_;
  ThreadPool& pool_;
  std::vector<std::int32_t> target_;  // best part to move to, -1: no neighbor lies elsewhere
  std::vector<Count> gain_, held_;    // of the best move; weight that leads to the own part
  std::vector<std::uint8_t> stale_, state_;
  std::vector<std::int32_t> old_;  // part when last accounted
  Shelf<Links> shelf_;
};

}  // namespace strata::partition
