// SPDX-License-Identifier: Apache-2.0
#include "graph_tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "placement/graph_demands.hpp"
#include "strata/placement/placement_request.hpp"
#include "strata/util/error.hpp"
#include "unit/store/placement/small_graph.hpp"

namespace strata::store {
namespace {

TEST(GraphTensor, IsFoundByItsName) {
  for (const auto& [tensor, name] : enum_names<GraphTensor>)
    EXPECT_EQ(tensor_of(name_of(tensor)), tensor) << name;
  EXPECT_THROW(tensor_of("labels"), InputError);
}

// The planner's options list the tensors themselves.
TEST(GraphTensor, CanBeNamedInAPlacementRequestIfItCompetesForGpus) {
  for (const placement::TensorDemand& demand : graph_demands({.sizes = small_graph::kSizes,
                                               .features = small_graph::kFeatures,
                                               .accesses = small_graph::kAccesses,
                                               .rates = small_graph::kMeasured})) {
    std::string option = demand.name;
    std::ranges::replace(option, ' ', '-');
    EXPECT_NO_THROW(placement::parse_placement(option + "=0/0/100")) << option;
  }
}

}  // namespace
}  // namespace strata::store
