// SPDX-License-Identifier: Apache-2.0
#include "placement/plan_placement.hpp"

#include <gtest/gtest.h>

#include "unit/store/placement/small_graph.hpp"

namespace strata::store {
namespace {

using namespace small_graph;

TEST(LeastHostBytes, AreStructureAndWhatTheGpusCannotHold) {
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 0), kSizes.bytes() + 400 * kRow);
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 100 * kRow), kSizes.bytes() + 300 * kRow);
  EXPECT_EQ(least_host_bytes(kSizes, kFeatures, 1000 * kRow), kSizes.bytes());
}

TEST(GraphPlacement, CountsTheHostRowsOfAllSegmentsAsTheyAreLaidOut) {
  GraphPlacement placement;
  placement.features.segments = {{.replicated = 5, .host = 10}, {}, {.striped = 7, .host = 20}};
  EXPECT_EQ(placement.host_feature_bytes(kFeatures), 30 * kRow);
  placement.layout.padded = true;
  EXPECT_EQ(placement.host_feature_bytes(kFeatures), 30 * 128);
}

}  // namespace
}  // namespace strata::store
