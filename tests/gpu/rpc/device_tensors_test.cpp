// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <thread>

#include "strata/rpc/agent.hpp"
#include "support/mpi_world.hpp"

namespace strata::rpc {
namespace {

using test::world;

struct Reply {
  at::Tensor returned, doubled, on_host;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(returned, doubled, on_host);
  }
};

/// Writes into its argument, which must be nobody else's.
Reply echo(const at::Tensor& x) {
  Reply reply{.returned = x.clone(), .doubled = x + x, .on_host = x.cpu()};
  x.fill_(77);
  return reply;
}

int device_of(int rank) { return rank % static_cast<int>(c10::cuda::device_count()); }

/// Tensors on GPUs, of which the ranks may share one.
class DeviceTensors : public testing::TestWithParam<std::vector<Channel>> {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  Agent& start(std::int64_t landing_bytes) {
    Registry registry;
    registry.function("echo", &echo);
    Options options{.channels = GetParam(), .landing_bytes = landing_bytes};
    for (int rank = 0; rank < world().size(); ++rank)
      options.set_device_map(fmt::format("rank:{}", rank), {{device_of(world().rank()), device_of(rank)}});
    agent_.emplace(world().communicator(), fmt::format("worker{}", world().rank()), std::move(registry),
                   std::move(options));
    return *agent_;
  }
  std::optional<Agent> agent_;
};

at::Tensor random_tensor(std::mt19937& random, std::int64_t most) {
  const auto count = static_cast<std::int64_t>(random()) % most;
  at::Tensor tensor = at::arange(count, at::kInt) + static_cast<int>(random() % 1000);
  return random() % 3 == 0 ? tensor.to(at::kLong) : tensor;
}

/// The argument is still in the making when the call begins, and is overwritten right behind it.
TEST_P(DeviceTensors, BringRandomValuesBothWaysAtOnce) {
  Agent& agent = start(std::int64_t{1} << 20);
  const int rank = world().rank();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&agent, rank, t] {
      const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(device_of(rank)));
      const c10::cuda::CUDAStreamGuard own_stream(c10::cuda::getStreamFromPool(false, device.index()));
      std::mt19937 random(static_cast<unsigned>(rank * 100 + t));
      struct Kept {
        at::Tensor sent;
        Reply reply;
      };
      std::deque<Kept> kept;
      const std::string peer = fmt::format("rank:{}", (rank + t + 1) % world().size());
      for (int i = 0; i < 30; ++i) {
        const at::Tensor sent = random_tensor(random, i % 10 == 0 ? 500'000 : 20'000);
        at::Tensor given = sent.to(device);
        for (int k = 0; k < 20; ++k) given.add_(1);
        given.sub_(20);
        Future<Reply> reply = agent.async(peer, &echo, given);
        if ((rank + t + 1) % world().size() != rank) given.fill_(-5);  // it was copied
        kept.push_back({sent, reply.wait()});
        while (kept.size() > random() % 8) {
          const Kept& old = kept.front();
          ASSERT_EQ(old.reply.returned.device(), device);
          ASSERT_TRUE(old.reply.on_host.is_cpu());
          ASSERT_TRUE(at::equal(old.reply.returned.cpu(), old.sent)) << "rank " << rank << " call " << i;
          ASSERT_TRUE(at::equal(old.reply.doubled.cpu(), old.sent * 2)) << "rank " << rank << " call " << i;
          ASSERT_TRUE(at::equal(old.reply.on_host, old.sent)) << "rank " << rank << " call " << i;
          kept.pop_front();
        }
      }
    });
  }
  threads.clear();
  agent.shutdown();
  const std::vector<Traffic> traffic = agent.traffic();
  const Volume& shared = std::ranges::find(traffic, Channel::shared_memory, &Traffic::channel)->sent;
  const bool may_share = GetParam().empty() || GetParam().front() == Channel::shared_memory;
  EXPECT_EQ(shared.bytes > 0, world().size() > 1 && may_share);
}

TEST_P(DeviceTensors, RefuseADeviceThatTheMapLacks) {
  Agent& agent = start(std::int64_t{1} << 20);
  if (world().size() > 1 && c10::cuda::device_count() > 1) {
    const int other = (device_of(world().rank()) + 1) % static_cast<int>(c10::cuda::device_count());
    const at::Tensor x =
        at::arange(3, at::kInt).to(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(other)));
    const std::string peer = fmt::format("rank:{}", (world().rank() + 1) % world().size());
    EXPECT_THAT([&] { agent.sync(peer, &echo, x); },
                testing::ThrowsMessage<InputError>(testing::HasSubstr("argument 1 of echo lies on cuda:")));
  }
  agent.shutdown();
}

INSTANTIATE_TEST_SUITE_P(Each, DeviceTensors,
                         testing::Values(std::vector<Channel>{}, std::vector{Channel::shared_memory},
                                         std::vector{Channel::tcp}),
                         [](const auto& info) {
                           return info.param.empty()                   ? "All"
                                  : info.param.front() == Channel::tcp ? "Tcp"
                                                                       : "SharedMemory";
                         });

}  // namespace
}  // namespace strata::rpc
