// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/all.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>
#include <string_view>
#include <thread>

#include "ranks_on_gpus.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

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

/// Keeps its stream busy before it reads its argument, which is gone when it returns.
at::Tensor read_late(const at::Tensor& x) {
  const at::Tensor factor = at::ones({1024, 1024}, x.options().dtype(at::kFloat));
  for (int i = 0; i < 20; ++i) at::mm(factor, factor);
  return x + 1;
}
std::vector<at::Tensor> sums(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& tensor : tensors) sums.push_back(tensor.sum());
  return sums;
}

class DeviceTensors : public RanksOnGpus {
 protected:
  Agent& start(std::int64_t landing_bytes) {
    return start({.channels = GetParam(), .landing_bytes = landing_bytes});
  }
  Agent& start(Options options) {
    Registry registry;
    registry.function("echo", &echo).function("read_late", &read_late).function("sums", &sums);
    map_devices(options);
    agent_.emplace(world().communicator(), fmt::format("worker{}", world().rank()), std::move(registry),
                   std::move(options));
    return *agent_;
  }
  static std::string peer(int steps) {
    return fmt::format("rank:{}", (world().rank() + steps) % world().size());
  }
  Volume sent(Channel channel) const {
    const std::vector<Traffic> traffic = agent_->traffic();
    return std::ranges::find(traffic, channel, &Traffic::channel)->sent;
  }
  bool allows(Channel channel) const {
    return GetParam().empty() || std::ranges::find(GetParam(), channel) != GetParam().end();
  }
  /// Tensors on GPUs take `channel`, because those before it are not allowed.
  bool takes(Channel channel) const {
    if (world().size() == 1) return false;
    for (const Channel each : {Channel::cuda_ipc, Channel::shared_memory, Channel::tcp})
      if (allows(each)) return each == channel;
    return false;
  }
  std::optional<Agent> agent_;
};

at::Tensor random_tensor(std::mt19937& random, std::int64_t most) {
  const auto count = static_cast<std::int64_t>(random()) % most;
  at::Tensor tensor = at::arange(count, at::kInt) + static_cast<int>(random() % 1000);
  return random() % 3 == 0 ? tensor.to(at::kLong) : tensor;
}

struct Sizes {
  unsigned most = 0, most_of_tenth = 0;  ///< elements, and of every tenth tensor
};

/// Random tensors both ways at once. An argument is still in the making when its call begins, and is
/// overwritten right behind it.
void exchange(Agent& agent, const Sizes& sizes) {
  const int rank = world().rank();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&agent, &sizes, rank, t] {
      const c10::Device device = RanksOnGpus::device();
      const c10::cuda::CUDAStreamGuard own_stream(c10::cuda::getStreamFromPool(false, device.index()));
      std::mt19937 random(static_cast<unsigned>(rank * 100 + t));
      struct Kept {
        at::Tensor sent;
        Reply reply;
      };
      std::deque<Kept> kept;
      const std::string peer = fmt::format("rank:{}", (rank + t + 1) % world().size());
      for (int i = 0; i < 30; ++i) {
        const at::Tensor sent = random_tensor(random, i % 10 == 0 ? sizes.most_of_tenth : sizes.most);
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
}

TEST_P(DeviceTensors, BringRandomValuesBothWaysAtOnce) {
  Agent& agent = start(std::int64_t{1} << 20);
  exchange(agent, {.most = 20'000, .most_of_tenth = 500'000});
  agent.shutdown();
  EXPECT_EQ(sent(Channel::cuda_ipc).bytes > 0, takes(Channel::cuda_ipc));
  EXPECT_EQ(sent(Channel::shared_memory).bytes > 0, world().size() > 1 && allows(Channel::shared_memory));
}

/// Rooms are few and tensors of different sizes, so that each one soon lands where another was that may still
/// be read.
TEST_P(DeviceTensors, DoNotOverwriteWhatIsStillToBeRead) {
  Agent& agent = start(std::int64_t{1} << 20);
  for (int round = 0; round < 5; ++round) {
    std::vector<Future<at::Tensor>> results;
    for (int i = 0; i < 30; ++i) {
      at::Tensor x =
          at::full({1000 + 3000 * (i % 7)}, 100 * round + i, at::TensorOptions(at::kInt).device(device()));
      results.push_back(agent.async(peer(1), &read_late, x));
      if (world().size() > 1) x.fill_(-1);
    }
    for (int i = 0; i < 30; ++i) {
      const at::Tensor y = results[at(i)].wait();
      ASSERT_TRUE(at::all(y == 100 * round + i + 1).item<bool>()) << "round " << round << " call " << i;
    }
  }
  agent.shutdown();
}

TEST_P(DeviceTensors, ArriveThoughNoRoomHoldsThem) {
  Agent& agent = start(std::int64_t{1} << 20);
  const at::Tensor large = at::arange(5'000'001, at::TensorOptions(at::kInt).device(device()));
  const Reply reply = agent.sync(peer(1), &echo, large.clone());
  EXPECT_TRUE(at::equal(reply.returned, large));
  EXPECT_TRUE(at::equal(reply.doubled, large * 2));
  std::vector<at::Tensor> many;
  for (int i = 0; i < 300; ++i)
    many.push_back(at::full({i % 9 == 0 ? 5000 : 1 + i}, i, at::TensorOptions(at::kLong).device(device())));
  const std::vector<at::Tensor> totals = agent.sync(peer(1), &sums, many);
  for (std::size_t i = 0; i < many.size(); ++i)
    ASSERT_EQ(totals[i].item<std::int64_t>(), many[i].sum().item<std::int64_t>()) << i;
  agent.shutdown();
  if (!takes(Channel::cuda_ipc)) return;
  EXPECT_EQ(sent(Channel::cuda_ipc).messages, 1 + 2 + 2 * 300U);
}

TEST_P(DeviceTensors, OutliveTheAgentAndLeaveNoMemoryBehind) {
  const at::Tensor x = at::arange(50'000, at::TensorOptions(at::kInt).device(device()));
  constexpr int kTimes = 16;
  constexpr std::int64_t kLandingBytes = std::int64_t{64} << 20;
  std::vector<Reply> replies;
  std::int64_t free_before = 0;
  for (int i = 0; i < kTimes; ++i) {
    Agent& agent = start(kLandingBytes);
    Reply reply = agent.sync(peer(1), &echo, x.clone());
    agent.shutdown();
    agent_.reset();
    world().communicator().barrier();
    if (i < 2) replies.push_back(reply);
    if (i == 4) free_before = cuda::device_memory(device_of(world().rank())).free_bytes;
  }
  for (const Reply& reply : replies) EXPECT_TRUE(at::equal(reply.returned, x));
  world().communicator().barrier();
  const std::int64_t free_after = cuda::device_memory(device_of(world().rank())).free_bytes;
  EXPECT_LT(free_before - free_after, 5 * kLandingBytes) << "of " << kTimes << " agents' zones";
}

TEST_P(DeviceTensors, TakeTheNextChannelWhereGpusDoNotReachEachOther) {
  ASSERT_EQ(setenv("STRATA_PEER_ACCESS", "off", 1), 0);
  Agent& agent = start(std::int64_t{1} << 20);
  ASSERT_EQ(unsetenv("STRATA_PEER_ACCESS"), 0);
  const at::Tensor x = at::arange(20'000, at::TensorOptions(at::kInt).device(device()));
  EXPECT_TRUE(at::equal(agent.sync(peer(1), &echo, x.clone()).returned, x));
  agent.shutdown();
  EXPECT_EQ(sent(Channel::cuda_ipc), Volume{});
}

/// NCCL refuses ranks that share a GPU, unless it takes their hosts for different ones.
bool nccl_joins_shared_gpus() {
  const char* host = std::getenv("NCCL_HOSTID");
  return host != nullptr && std::string_view(host).starts_with("rank");
}
/// Whether NCCL joins a rank to its neighbors in the ring of calls, at least to one of them.
bool nccl_joins_pairs() {
  return world().size() > 1 && (c10::cuda::device_count() > 1 || nccl_joins_shared_gpus());
}
bool nccl_joins_all() {
  return world().size() > 1 && (c10::cuda::device_count() >= world().size() || nccl_joins_shared_gpus());
}

/// With NCCL_HOSTID=rank0, rank1 ... NCCL joins ranks that share a GPU; without, they do without it.
TEST_P(DeviceTensors, ShareNoMemoryBetweenVirtualMachines) {
  if (!allows(Channel::tcp)) GTEST_SKIP() << "needs TCP";
  Agent& agent =
      start(Options{.channels = GetParam(), .landing_bytes = std::int64_t{1} << 20, .ranks_per_machine = 1});
  exchange(agent, {.most = 200'000, .most_of_tenth = 3'000'000});
  agent.shutdown();
  EXPECT_EQ(sent(Channel::cuda_ipc), Volume{});
  EXPECT_EQ(sent(Channel::shared_memory), Volume{});
  EXPECT_EQ(sent(Channel::nccl).bytes > 0, allows(Channel::nccl) && nccl_joins_pairs());
}

/// Several tensors of a message at once, of all sizes, among small ones that travel in it.
TEST_P(DeviceTensors, ComeInOneMessageBetweenVirtualMachines) {
  if (!allows(Channel::tcp)) GTEST_SKIP() << "needs TCP";
  Agent& agent =
      start(Options{.channels = GetParam(), .landing_bytes = std::int64_t{1} << 20, .ranks_per_machine = 1});
  std::mt19937 random(7);
  std::vector<at::Tensor> many;
  for (int i = 0; i < 200; ++i)
    many.push_back(random_tensor(random, i % 3 == 0 ? 200'000 : 300).to(device()));
  const std::vector<at::Tensor> totals = agent.sync(peer(1), &sums, many);
  for (std::size_t i = 0; i < many.size(); ++i)
    ASSERT_EQ(totals[i].item<std::int64_t>(), many[i].sum().item<std::int64_t>()) << i;
  const at::Tensor large = at::arange(20'000'001, at::TensorOptions(at::kInt).device(device()));
  EXPECT_TRUE(at::equal(agent.sync(peer(1), &echo, large.clone()).returned, large));
  agent.shutdown();
  EXPECT_EQ(sent(Channel::nccl).bytes > 0, allows(Channel::nccl) && nccl_joins_pairs());
}

/// A collective of training waits on the GPU for its peers while calls come and go, and the other way round:
/// neither hangs, and neither changes a bit.
TEST_P(DeviceTensors, TravelBesideCollectivesOfTraining) {
  if (!allows(Channel::nccl) || !allows(Channel::tcp) || !nccl_joins_all()) GTEST_SKIP() << "needs NCCL";
  Agent& agent = start(Options{.channels = GetParam(), .ranks_per_machine = 1});
  const Device own{Device::Kind::cuda, device_of(world().rank())};
  std::atomic<bool> is_done = false;
  std::jthread calls([&] {
    const at::Tensor x = at::arange(1'000'000, at::TensorOptions(at::kInt).device(device()));
    while (!is_done) ASSERT_TRUE(at::equal(agent.sync(peer(1), &echo, x.clone()).returned, x));
  });
  {
    const auto collectives = comm::make_device_exchange(world().communicator(), own);
    const cuda::Stream stream(own);
    const at::Tensor values = at::full({1}, 0, at::TensorOptions(at::kLong).device(device()));
    c10::cuda::device_synchronize();
    for (std::int64_t step = 0; step < 40; ++step) {
      values.fill_(step * world().size() + world().rank());
      c10::cuda::device_synchronize();
      collectives->max(values.mutable_data_ptr<std::int64_t>(), 1, stream);
      stream.synchronize();
      EXPECT_EQ(values.item<std::int64_t>(), (step + 1) * world().size() - 1);
    }
    is_done = true;
    calls.join();
    collectives->close();
  }
  agent.shutdown();
  EXPECT_GT(sent(Channel::nccl).bytes, 0U);
}

TEST_P(DeviceTensors, OnTheHostMayBeDroppedWhileTheyAreCopiedToAGpu) {
  Agent& agent = start(std::int64_t{64} << 20);
  const at::Tensor sent = at::arange(1 << 20, at::kInt);
  std::vector<at::Tensor> copies;
  for (int i = 0; i < 8; ++i) {
    const at::Tensor came = agent.sync(peer(1), &echo, sent + i).returned;
    // A copy from pinned memory would go on after the room has gone back to its sender.
    EXPECT_FALSE(came.is_pinned());
    copies.push_back(came.to(device(), /*non_blocking=*/true));
  }
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(at::equal(copies[at(i)].cpu(), sent + i)) << i;
  agent.shutdown();
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
                         testing::Values(std::vector<Channel>{}, std::vector{Channel::cuda_ipc, Channel::tcp},
                                         std::vector{Channel::shared_memory}, std::vector{Channel::tcp},
                                         std::vector{Channel::nccl, Channel::tcp}),
                         [](const auto& info) -> std::string {
                           if (info.param.empty()) return "All";
                           switch (info.param.front()) {
                             case Channel::cuda_ipc:
                               return "CudaIpc";
                             case Channel::shared_memory:
                               return "SharedMemory";
                             case Channel::nccl:
                               return "Nccl";
                             case Channel::tcp:
                               break;
                           }
                           return "Tcp";
                         });

}  // namespace
}  // namespace strata::rpc
