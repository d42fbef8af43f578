// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "strata/comm/backend.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/util/log.hpp"
#include "support/mpi_world.hpp"

namespace strata::rpc {
namespace {

using test::world;

struct Reply {
  at::Tensor returned, doubled;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(returned, doubled);
  }
};

/// Writes into its argument, which must be nobody else's.
Reply echo(const at::Tensor& x) {
  Reply reply{.returned = x.clone(), .doubled = x + x};
  x.fill_(77);
  return reply;
}
/// So that what a later tensor does not write of its room is seen there.
void poison(const Reply& reply) {
  reply.returned.fill_(-9);
  reply.doubled.fill_(-9);
}
std::int64_t sum(const std::vector<at::Tensor>& tensors) {
  std::int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.sum().item<std::int64_t>();
  return total;
}

/// An object that keeps what it was made of.
class Shelf {
 public:
  explicit Shelf(const at::Tensor& content) : content_(content) {}
  at::Tensor content() { return content_; }

 private:
  at::Tensor content_;
};

/// While it lives, the log of this process, of all levels. No agent begins before it or ends after it.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    auto logger = std::make_shared<spdlog::logger>("captured", std::move(sink));
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  std::string text() const { return text_.str(); }

 private:
  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

bool is_one_machine() {
  const std::vector<std::string> hosts = world().communicator().all_gather(comm::host_name());
  return std::ranges::count(hosts, hosts.front()) == std::ssize(hosts);
}

class ChannelsTest : public testing::TestWithParam<std::vector<Channel>> {
 protected:
  void SetUp() override {
    if (!is_one_machine_ && GetParam() == std::vector{Channel::shared_memory})
      GTEST_SKIP() << "needs ranks of one machine";
  }
  Agent& start(Options options = {}) {
    Registry registry;
    registry.function("echo", &echo).function("sum", &sum);
    registry.constructor<Shelf, at::Tensor>("Shelf").method("Shelf::content", &Shelf::content);
    agent_.emplace(world().communicator(), fmt::format("worker{}", world().rank()), std::move(registry),
                   std::move(options));
    return *agent_;
  }
  Agent& start_with_param(std::int64_t landing_bytes) {
    return start({.channels = GetParam(), .landing_bytes = landing_bytes});
  }
  static std::string peer(int steps) {
    return fmt::format("rank:{}", (world().rank() + steps) % world().size());
  }
  Volume sent(Channel channel) const {
    const std::vector<Traffic> traffic = agent_->traffic();
    return std::ranges::find(traffic, channel, &Traffic::channel)->sent;
  }
  /// Other ranks, and the channel that the parameter forces or makes the first choice.
  bool uses_shared_memory() const {
    return world().size() > 1 && is_one_machine_ &&
           (GetParam().empty() || GetParam().front() == Channel::shared_memory);
  }

  const bool is_one_machine_ = is_one_machine();
  std::optional<Agent> agent_;
};

at::Tensor random_tensor(std::mt19937& random, std::int64_t most) {
  at::Tensor tensor =
      at::arange(static_cast<std::int64_t>(random()) % most, at::kInt) + static_cast<int>(random() % 1000);
  if (random() % 3 == 0) tensor = tensor.to(at::kLong);
  if (tensor.numel() > 1 && random() % 3 == 0) tensor = tensor.slice(0, 0, tensor.numel(), 2);
  return tensor;
}

/// Small zones, so that tensors find room, find none and never could; replies stay alive for a while, so
/// that one that was given room that another still has would change it. Rooms are returned with wrong values.
TEST_P(ChannelsTest, BringRandomTensorsBothWaysAtOnce) {
  Agent& agent = start_with_param(std::int64_t{512} << 10);
  const int rank = world().rank();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&agent, rank, t] {
      std::mt19937 random(static_cast<unsigned>(rank * 100 + t));
      struct Kept {
        at::Tensor sent;
        Reply reply;
      };
      std::deque<Kept> kept;
      for (int i = 0; i < 40; ++i) {
        const at::Tensor sent = random_tensor(random, i % 10 == 0 ? 300'000 : 20'000);
        at::Tensor given = sent.clone();
        Future<Reply> reply = agent.async(peer(t + 1), &echo, given);
        if (world().size() > 1 && (rank + t + 1) % world().size() != rank) given.fill_(-5);  // it was copied
        kept.push_back({sent, reply.wait()});
        while (kept.size() > random() % 12) {
          const Kept& old = kept.front();
          ASSERT_TRUE(at::equal(old.reply.returned, old.sent)) << "rank " << rank << " call " << i;
          ASSERT_TRUE(at::equal(old.reply.doubled, old.sent * 2)) << "rank " << rank << " call " << i;
          poison(old.reply);
          kept.pop_front();
        }
      }
    });
  }
  threads.clear();
  agent.shutdown();
  EXPECT_EQ(sent(Channel::shared_memory).bytes > 0, uses_shared_memory());
}

TEST_P(ChannelsTest, BringTensorsThatNoRoomHolds) {
  Agent& agent = start_with_param(std::int64_t{256} << 10);
  const at::Tensor large = at::arange(1 << 20, at::kInt);
  const Reply reply = agent.sync(peer(1), &echo, large.clone());
  EXPECT_TRUE(at::equal(reply.returned, large));
  EXPECT_TRUE(at::equal(reply.doubled, large * 2));
  std::vector<at::Tensor> many;
  for (int i = 0; i < 400; ++i) many.push_back(at::full({2000}, i, at::kLong));
  EXPECT_EQ(agent.sync(peer(1), &sum, many), 2000LL * 400 * 399 / 2);
  agent.shutdown();
  if (uses_shared_memory()) {
    EXPECT_EQ(sent(Channel::shared_memory).messages, 1 + 2 + 400U);
    EXPECT_EQ(sent(Channel::shared_memory).bytes, 3 * large.nbytes() + 400U * 16000);
  }
}

TEST_P(ChannelsTest, KeepTheOrderOfCallsWhateverTheirTensorsTake) {
  Agent& agent = start_with_param(std::int64_t{256} << 10);
  for (int i = 0; i < 10; ++i) {
    const at::Tensor content = at::full({i % 2 == 0 ? 400'000 : 10}, i, at::kInt);
    const Ref<Shelf> shelf = agent.remote<Shelf>(peer(1), content);
    EXPECT_TRUE(at::equal(shelf.sync(&Shelf::content), content));
  }
  agent.shutdown();
}

TEST_P(ChannelsTest, LeaveTensorsToThoseWhoOutliveTheAgent) {
  const at::Tensor x = at::arange(50'000, at::kInt);
  std::vector<Reply> replies;
  for (int i = 0; i < 3; ++i) {
    Agent& agent = start_with_param(std::int64_t{4} << 20);
    replies.push_back(agent.sync(peer(1), &echo, x.clone()));
    agent.shutdown();
    agent_.reset();
  }
  world().communicator().barrier();
  for (const Reply& reply : replies) EXPECT_TRUE(at::equal(reply.returned, x));
}

TEST_P(ChannelsTest, AreNamedInTheLogOfCalls) {
  const CapturedLog log;
  Agent& agent = start_with_param(std::int64_t{4} << 20);
  agent.sync(peer(1), &echo, at::arange(20'000, at::kInt));
  EXPECT_THROW(agent.sync(peer(1), &sum, std::vector{at::Tensor()}), RemoteError);
  agent.shutdown();
  agent_.reset();
  const std::string call =
      fmt::format("rpc: worker{} -> worker{}: ", world().rank(), (world().rank() + 1) % world().size());
  const std::string way = uses_shared_memory() ? "shared-memory, [0-9]+ B tcp"
                          : world().size() > 1 ? "tcp"
                                               : "within the process";
  const std::string echoed = "echo: sent 78.[0-9] KiB {}; got 156.[0-9] KiB {} after [0-9]+ us\n";
  EXPECT_THAT(log.text(), testing::ContainsRegex(call + fmt::format(fmt::runtime(echoed), way, way)));
  EXPECT_THAT(log.text(), testing::ContainsRegex(call + "sum: sent .*; failed \\(.* on worker.*\\) after "));
}

INSTANTIATE_TEST_SUITE_P(Each, ChannelsTest,
                         testing::Values(std::vector<Channel>{}, std::vector{Channel::shared_memory},
                                         std::vector{Channel::tcp}, std::vector{Channel::nccl, Channel::tcp}),
                         [](const auto& info) {
                           if (info.param.empty()) return "All";
                           if (info.param.front() == Channel::nccl) return "Nccl";
                           return info.param.front() == Channel::tcp ? "Tcp" : "SharedMemory";
                         });

class ChoiceTest : public ChannelsTest {
 protected:
  void SetUp() override {}
};

TEST_F(ChoiceTest, TakesTheNextChannelWhereOneFailsToOpen) {
  Agent& agent = start({.landing_bytes = std::int64_t{1} << 50});
  const at::Tensor x = at::arange(20'000, at::kInt);
  EXPECT_TRUE(at::equal(agent.sync(peer(1), &echo, x.clone()).returned, x));
  agent.shutdown();
  EXPECT_EQ(sent(Channel::shared_memory), Volume{});
}

TEST_F(ChoiceTest, SharesNoMemoryBetweenVirtualMachines) {
  Agent& agent = start({.ranks_per_machine = 1});
  const at::Tensor x = at::arange(20'000, at::kInt);
  EXPECT_TRUE(at::equal(agent.sync(peer(1), &echo, x.clone()).returned, x));
  agent.shutdown();
  EXPECT_EQ(sent(Channel::shared_memory), Volume{});
}

TEST_F(ChoiceTest, TakesWhatBothEndsAllow) {
  const std::vector<Channel> own =
      world().rank() == 0 ? std::vector{Channel::tcp} : std::vector{Channel::tcp, Channel::shared_memory};
  Agent& agent = start({.channels = own});
  const at::Tensor x = at::arange(20'000, at::kInt);
  EXPECT_TRUE(at::equal(agent.sync(peer(1), &echo, x.clone()).returned, x));
  agent.shutdown();
  // The next of the last rank is rank 0.
  const int rank = world().rank();
  if (world().size() == 3 && is_one_machine_) {
    EXPECT_EQ(sent(Channel::shared_memory).messages, rank == 0 ? 0U : rank == 1 ? 1U : 2U);
  } else {
    EXPECT_EQ(sent(Channel::shared_memory), Volume{});
  }
}

TEST_F(ChoiceTest, RefusesToStartWhereRanksHaveNoChannelInCommon) {
  if (world().size() == 1) return;
  for (const Channel only : {Channel::shared_memory, Channel::nccl}) {
    const Options forced{.channels = {only}, .ranks_per_machine = 1};
    EXPECT_THAT([&] { start(forced); }, testing::ThrowsMessage<InputError>(
                                            testing::HasSubstr("have no channel for tensors in common")));
  }
}

TEST_F(ChoiceTest, RefusesAZoneThatIsTooSmall) {
  if (world().size() == 1 || !is_one_machine_) return;
  EXPECT_THAT([&] { start({.landing_bytes = 1000}); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("landing_bytes of the options is 1000")));
}

}  // namespace
}  // namespace strata::rpc
