// SPDX-License-Identifier: Apache-2.0
#include "nvml_paths.hpp"

#include <gtest/gtest.h>

namespace strata::cuda {
namespace {

constexpr PciAddress kPeer{.bus = 0x3b}, kThird{.bus = 0x5e}, kSwitch{.bus = 0x05};

TEST(PathOf, CountsTheNvlinksThatEndAtThePeer) {
  EXPECT_EQ(path_of({.over_nvlink = true, .peer = kPeer, .nvlinks = {kPeer, kThird, kPeer}}), "NV2");
}

TEST(PathOf, CountsAllNvlinksThroughSwitches) {
  EXPECT_EQ(path_of({.over_nvlink = true, .peer = kPeer, .nvlinks = std::vector(18, kSwitch)}), "NV18");
}

TEST(PathOf, NamesNvlinkWhoseNumberIsNotKnown) {
  EXPECT_EQ(path_of({.over_nvlink = true, .peer = kPeer, .ancestor = 50}), "NVLink");
}

TEST(PathOf, NamesWhereThePcieWaysMeetWithoutNvlinkBetweenTheTwo) {
  const auto path = [](int ancestor) {
    return path_of({.peer = kPeer, .nvlinks = {kThird}, .ancestor = ancestor});
  };
  EXPECT_EQ(path(10), "PIX");
  EXPECT_EQ(path(20), "PXB");
  EXPECT_EQ(path(30), "PHB");
  EXPECT_EQ(path(40), "NODE");
  EXPECT_EQ(path(50), "SYS");
}

TEST(PathOf, IsEmptyWhereNothingIsKnown) {
  EXPECT_EQ(path_of({.peer = kPeer}), "");
  EXPECT_EQ(path_of({.peer = kPeer, .ancestor = 77}), "");
}

}  // namespace
}  // namespace strata::cuda
