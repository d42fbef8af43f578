// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/all.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "ranks_on_gpus.hpp"
#include "strata/rpc/remote_module.hpp"

namespace strata::rpc {
namespace {

using test::world;

constexpr std::int64_t kMicroBatches = 8, kWidth = 1 << 18;
constexpr int kHeldUp = 3;  // the micro-batch that does not end before the gate opens

/// The gate of this rank: streams wait at it and count what has passed.
struct Gate {
  std::atomic<bool> is_open = true;
  std::atomic<int> passed = 0;
};
Gate& gate() {
  static Gate gate;
  return gate;
}
int passed() { return gate().passed; }

/// Queues a function on the device's current stream.
void queue(c10::Device device, void (*function)(void*)) {
  const c10::DeviceGuard guard(device);
  ASSERT_EQ(cudaLaunchHostFunc(c10::cuda::getCurrentCUDAStream(), function, &gate()), cudaSuccess);
}

class First : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x) const {
    if (calls_++ % kMicroBatches == kHeldUp)
      queue(x.device(), [](void* at) { static_cast<Gate*>(at)->is_open.wait(false); });
    return x + 1;
  }

 private:
  mutable std::atomic<int> calls_ = 0;
};

class Second : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x) const {
    at::Tensor y = x * 2;
    queue(x.device(), [](void* at) { ++static_cast<Gate*>(at)->passed; });
    return y;
  }
};

class PipelinedStages : public RanksOnGpus {
 protected:
  void SetUp() override {
    RanksOnGpus::SetUp();
    if (!IsSkipped() && world().size() == 1) GTEST_SKIP() << "needs two ranks";
  }
};

/// Opens the gate when so many have passed on the other rank, or after a while. Returns how many had.
int open_after(Agent& agent, int wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int found = 0;
  while (found < wanted && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    found = agent.sync("rank:1", &passed);
  }
  gate().is_open = true;
  gate().is_open.notify_all();
  return found;
}

// All outputs go in pieces, because no room holds one, and all are under way before the first stage has made
// the one that is held up.
TEST_P(PipelinedStages, GoOnWithWhatIsMadeWhileALaterOutputIsNot) {
  Registry registry;
  registry.function("passed", &passed);
  register_module<First>(registry, "First");
  register_module<Second>(registry, "Second");
  Options options{.channels = GetParam(), .landing_bytes = std::int64_t{1} << 20};
  map_devices(options);
  Agent agent(world().communicator(), fmt::format("worker{}", world().rank()), std::move(registry), options);
  if (world().rank() == 0) {
    const RemoteModule<First> first(agent, fmt::format("worker0/cuda:{}", device_of(0)));
    const RemoteModule<Second> second(agent, fmt::format("worker1/cuda:{}", device_of(1)));
    const auto run = [&](int value) {
      const at::Tensor x =
          at::full({kMicroBatches, kWidth}, value, at::TensorOptions(at::kFloat).device(device()));
      const at::Tensor y = pipeline({first.stage(), second.stage()}, x, {.micro_batches = kMicroBatches});
      EXPECT_TRUE(at::all(y == 2 * (value + 1)).item<bool>());
    };
    run(1);  // allocates
    const int before = agent.sync("rank:1", &passed);
    gate().is_open = false;
    int found = 0;
    std::jthread opener([&] { found = open_after(agent, before + kHeldUp); });
    run(2);
    opener.join();
    EXPECT_EQ(found, before + kHeldUp);
    EXPECT_EQ(agent.sync("rank:1", &passed), before + kMicroBatches);
  }
  agent.shutdown();
}

INSTANTIATE_TEST_SUITE_P(Each, PipelinedStages,
                         testing::Values(std::vector<Channel>{}, std::vector{Channel::shared_memory}),
                         [](const auto& info) { return info.param.empty() ? "All" : "SharedMemory"; });

}  // namespace
}  // namespace strata::rpc
