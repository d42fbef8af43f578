// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "cuda/walk.cuh"
#include "multilevel/jet_steps.hpp"

namespace strata::partition {

/// JetSteps on the current GPU. Refers to the graph and the partition that it is made of.
class JetStepsCuda final : public JetSteps {
 public:
  JetStepsCuda(const LevelGraph& graph, const std::vector<std::int32_t>& part_of, int num_parts,
               std::int64_t list_bytes);

  Count cut() override;
  void unlock() override;
  JetMoves choose(const JetRound& round) override;
  void place(const std::vector<std::int32_t>& nodes) override;
  JetChange account(std::vector<std::int32_t> touched) override;

 private:
  Count select_chosen();

  const std::vector<std::int32_t>& part_of_;
  Count num_nodes_;
  int num_parts_;
  DeviceStream stream_;
  DeviceArray<std::int32_t> part_, old_, target_, nodes_, to_;  // old: part when last accounted
  DeviceArray<Count> gain_, held_;
  DeviceArray<std::uint8_t> stale_, candidate_, chosen_;
  DeviceArray<Count> num_moved_;
  DeviceArray<std::int32_t> num_chosen_;
  DeviceArray<std::byte> select_space_;
  DeviceLists lists_;
  Walker walker_;
};

}  // namespace strata::partition
