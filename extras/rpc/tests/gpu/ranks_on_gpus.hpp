// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "strata/rpc/agent.hpp"
#include "support/mpi_world.hpp"

namespace strata::rpc {

/// Tests of channels between GPUs of ranks, which share some if there are not enough.
class RanksOnGpus : public testing::TestWithParam<std::vector<Channel>> {
 public:
  static int device_of(int rank) { return rank % static_cast<int>(c10::cuda::device_count()); }
  /// This rank's.
  static c10::Device device() {
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(device_of(test::world().rank()))};
  }
  /// This rank's to those of all others.
  static void map_devices(Options& options) {
    for (int rank = 0; rank < test::world().size(); ++rank)
      options.set_device_map(fmt::format("rank:{}", rank),
                             {{device_of(test::world().rank()), device_of(rank)}});
  }

 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    c10::cuda::set_device(device().index());
  }
};

}  // namespace strata::rpc
