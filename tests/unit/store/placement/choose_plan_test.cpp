// SPDX-License-Identifier: Apache-2.0
#include "placement/choose_plan.hpp"

#include <gtest/gtest.h>

#include "graph_tensor.hpp"
#include "placement/graph_demands.hpp"
#include "support/expect_error.hpp"
#include "unit/store/placement/small_graph.hpp"

namespace strata::store {
namespace {

using namespace small_graph;

GraphDemand demand(const placement::PlanLimits& limits) {
  return {.tensors = graph_demands(
              {.sizes = kSizes, .features = kFeatures, .accesses = kAccesses, .rates = kMeasured}),
          .limits = limits};
}

TEST(WithoutInputs, LeavesAQuarterMoreThanTheExpectedRowsOfABatch) {
  const LoadOptions options{.bytes_per_input_row = 8};
  const placement::PlanLimits limits{.gpu_bytes = 10'000, .host_bytes = 77, .num_gpus = 3};
  const placement::PlanLimits left = without_inputs(limits, kAccesses, options);
  EXPECT_EQ(left.gpu_bytes, 10'000 - 900 * 8 * 5 / 4);
  EXPECT_EQ(left.host_bytes, 77);
  EXPECT_EQ(left.num_gpus, 3);
  EXPECT_EQ(without_inputs({.gpu_bytes = 10, .num_gpus = 1}, kAccesses, options).gpu_bytes, 0);
}

TEST(ChoosePlan, GivesTheDemandBackWithWhatWasAskedFor) {
  const placement::PlanLimits limits{.gpu_bytes = 1 << 20, .num_gpus = 2};
  const ChosenPlan chosen = choose_plan(demand(limits), placement::parse_placement("features=0/0/100"));
  EXPECT_EQ(chosen.demand.limits.gpu_bytes, limits.gpu_bytes);
  ASSERT_EQ(chosen.plan.tensors.size(), chosen.demand.tensors.size());
  for (std::size_t i = 0; i < chosen.plan.tensors.size(); ++i) {
    const placement::TensorPlan& tensor = chosen.plan.tensors[i];
    const bool asked_for = tensor.name == name_of(GraphTensor::features);
    EXPECT_EQ(tensor.name, chosen.demand.tensors[i].name);
    EXPECT_EQ(chosen.demand.tensors[i].fixed.has_value(), asked_for) << tensor.name;
    EXPECT_EQ(tensor.placement.segments[0].host > 0, asked_for) << tensor.name;
  }
}

TEST(ChoosePlan, RefusesWhatCannotBe) {
  test::expect_error(
      [] {
        choose_plan(demand({.gpu_bytes = 1 << 20, .num_gpus = 1}),
                    placement::parse_placement("in-degrees=50/0/50"));
      },
      {"in-degrees", "as a whole"});
}

}  // namespace
}  // namespace strata::store
