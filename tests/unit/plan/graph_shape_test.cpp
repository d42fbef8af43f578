// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/graph_shape.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "strata/plan/forecast.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/plan/placement.hpp"
#include "strata/util/error.hpp"
#include "unit/plan/small_graph.hpp"

namespace strata::plan {
namespace {

TEST(GraphTensor, IsFoundByItsName) {
  for (const auto& [tensor, name] : enum_names<GraphTensor>)
    EXPECT_EQ(tensor_of(name_of(tensor)), tensor) << name;
  EXPECT_THROW(tensor_of("labels"), InputError);
}

// The planner's options list the tensors themselves.
TEST(GraphTensor, CanBeNamedInAPlacementRequestIfItCompetesForGpus) {
  for (const TensorDemand& demand : graph_demands({.sizes = small_graph::kSizes,
                                    .features = small_graph::kFeatures,
                                    .accesses = small_graph::kAccesses,
                                    .rates = small_graph::kMeasured})) {
    std::string option = demand.name;
    std::ranges::replace(option, ' ', '-');
    EXPECT_NO_THROW(parse_placement(option + "=0/0/100")) << option;
  }
}

TEST(Memory, LeavesRoomOnMachinesAndGpus) {
  EXPECT_TRUE(leaves_enough(800, 1000));
  EXPECT_FALSE(leaves_enough(801, 1000));
  EXPECT_EQ(graph_bytes_of_gpu(1000, 100), 820);
  EXPECT_EQ(graph_bytes_of_gpu(1000, 2000), 0);
  EXPECT_EQ(bytes_per_input_row(100, 3), 1500);
}

}  // namespace
}  // namespace strata::plan
