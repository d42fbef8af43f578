// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/agent.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "support/mpi_world.hpp"

namespace strata::rpc {
namespace {

using namespace std::chrono_literals;
using test::world;

/// What the functions of this file need of the test; static functions have no other way to it.
struct Scene {
  std::atomic<Agent*> agent{nullptr};
  std::atomic<int> counters{0}, sleepers{0};
};
Scene& scene() {
  static Scene instance;
  return instance;
}

Agent& agent_of_rank() { return *scene().agent.load(); }

/// An object that counts how many of its kind live on this rank.
class Counter {
 public:
  explicit Counter(int value) : value_(value) { ++scene().counters; }
  ~Counter() { --scene().counters; }
  int add(int more) { return value_ += more; }
  int value() const { return value_; }

 private:
  std::atomic<int> value_;
};

struct Sample {
  std::int64_t id = 0;
  std::string name;
  std::vector<double> scores;
  std::map<std::string, std::vector<std::int64_t>> groups;
  std::optional<std::string> note;
  std::pair<int, bool> flags;
  Device device;
  std::vector<at::Tensor> tensors;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(id, name, scores, groups, note, flags, device, tensors);
  }
};

/// What it archives are temporaries.
struct Doubled {
  at::Tensor a, b;
  template <typename Archive>
  void save(Archive& archive) const {
    archive(a.to(at::kDouble));
    archive(b.to(at::kDouble));
  }
  template <typename Archive>
  void load(Archive& archive) {
    archive(a, b);
  }
};
Doubled echo_doubled(const Doubled& tensors) { return tensors; }

int add(int a, int b) { return a + b; }
Sample echo(const Sample& sample) { return sample; }
at::Tensor twice(const at::Tensor& x) { return x + x; }
std::string join(const std::string& a, const std::string& b) { return a + b; }
int fail(const std::string& text) { throw InputError(text, "Do something else."); }
int fail_oddly() { throw 7; }
int sleep_ms(int ms) {
  ++scene().sleepers;
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  --scene().sleepers;
  return ms;
}
/// Goes back and forth between this rank and the next one.
int bounce(int depth) {
  if (depth == 0) return 0;
  const int next = (world().rank() + 1) % world().size();
  return 1 + agent_of_rank().sync(fmt::format("rank:{}", next), &bounce, depth - 1);
}
/// A handle goes on a random walk, on which every rank uses it and may keep a copy for a moment.
int wander(const Ref<Counter>& counter, int steps, unsigned seed) {
  std::mt19937 random(seed);
  counter.async(&Counter::add, 1);
  if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  if (steps == 0) return 1;
  const std::string next = fmt::format("rank:{}", random() % static_cast<unsigned>(world().size()));
  Ref<Counter> copy = counter;
  Future<int> later = agent_of_rank().async(next, &wander, copy, steps - 1, random());
  copy = {};
  return 1 + later.wait();
}
Ref<Counter> make_counter(const std::string& where, int value) {
  return agent_of_rank().remote<Counter>(where, value);
}

Registry registry() {
  Registry registry;
  registry.function("add", &add).function("echo", &echo).function("twice", &twice).function("join", &join);
  registry.function("echo_doubled", &echo_doubled);
  registry.function("fail", &fail).function("fail_oddly", &fail_oddly).function("sleep_ms", &sleep_ms);
  registry.function("bounce", &bounce).function("wander", &wander).function("make_counter", &make_counter);
  registry.constructor<Counter, int>("Counter");
  registry.method("Counter::add", &Counter::add).method("Counter::value", &Counter::value);
  return registry;
}

class AgentTest : public testing::Test {
 protected:
  /// Every other rank looks for messages before it sleeps, unless the options say otherwise.
  Agent& start(Options options = {}) {
    if (!options.busy_poll) options.busy_poll = world().rank() % 2 == 0 ? 0us : Options::kBusyPoll;
    agent_.emplace(world().communicator(), fmt::format("worker{}", world().rank()), registry(),
                   std::move(options));
    scene().agent = &*agent_;
    world().communicator().barrier();  // so that no call finds a scene without an agent
    return *agent_;
  }
  void stop() {
    agent_->shutdown();
    agent_.reset();
    EXPECT_EQ(scene().counters, 0);
  }
  static std::string next() { return fmt::format("worker{}", (world().rank() + 1) % world().size()); }

  std::optional<Agent> agent_;
};

template <typename E, typename Action>
E thrown(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error;
  }
  throw std::runtime_error("nothing was thrown");
}

at::Tensor random_tensor(std::mt19937& random) {
  constexpr std::array kTypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,        at::kInt,
                              at::kShort, at::kChar,   at::kByte, at::kBool,     at::kComplexFloat};
  std::vector<std::int64_t> sizes(random() % 4);
  for (std::int64_t& size : sizes)
    size = random() % 9 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % 40);
  at::Tensor tensor = at::randint(0, 2, sizes, at::kFloat).to(kTypes[random() % kTypes.size()]);
  if (sizes.size() >= 2 && random() % 2 == 0) tensor = tensor.transpose(0, 1);
  if (!sizes.empty() && sizes[0] > 2 && random() % 3 == 0) tensor = tensor.slice(0, 0, tensor.size(0), 2);
  if (tensor.is_floating_point() && random() % 3 == 0) tensor = tensor.detach().set_requires_grad(true);
  return tensor;
}

Sample random_sample(std::mt19937& random) {
  Sample sample{.id = static_cast<std::int64_t>(random()),
                .name = std::string(random() % 300, 'n'),
                .scores = std::vector<double>(random() % 20, 0.1 * static_cast<double>(random() % 100)),
                .groups = {},
                .note = std::nullopt,
                .flags = {static_cast<int>(random()), random() % 2 == 0},
                .device = {.kind = Device::Kind::cuda, .index = static_cast<int>(random() % 8)},
                .tensors = {}};
  for (auto i = random() % 4; i > 0; --i) sample.groups[std::to_string(i)].assign(random() % 5, 3);
  if (random() % 2 == 0) sample.note = "note";
  for (auto i = random() % 6; i > 0; --i) sample.tensors.push_back(random_tensor(random));
  if (random() % 4 == 0) sample.tensors.emplace_back();  // undefined
  if (!sample.tensors.empty() && random() % 4 == 0) sample.tensors.push_back(sample.tensors.front());
  return sample;
}

void expect_equal(const Sample& got, const Sample& sent, unsigned seed) {
  EXPECT_EQ(got.id, sent.id) << "seed " << seed;
  EXPECT_EQ(got.name, sent.name) << "seed " << seed;
  EXPECT_EQ(got.scores, sent.scores) << "seed " << seed;
  EXPECT_EQ(got.groups, sent.groups) << "seed " << seed;
  EXPECT_EQ(got.note, sent.note) << "seed " << seed;
  EXPECT_EQ(got.flags, sent.flags) << "seed " << seed;
  EXPECT_EQ(got.device, sent.device) << "seed " << seed;
  ASSERT_EQ(got.tensors.size(), sent.tensors.size()) << "seed " << seed;
  for (std::size_t i = 0; i < sent.tensors.size(); ++i) {
    const at::Tensor &a = got.tensors[i], &b = sent.tensors[i];
    ASSERT_EQ(a.defined(), b.defined()) << "seed " << seed;
    if (!a.defined()) continue;
    EXPECT_EQ(a.scalar_type(), b.scalar_type()) << "seed " << seed;
    EXPECT_EQ(a.requires_grad(), b.requires_grad()) << "seed " << seed;
    EXPECT_TRUE(at::equal(a, b)) << "tensor " << i << ", seed " << seed;
  }
}

TEST_F(AgentTest, CallsFunctionsOfEveryRank) {
  Agent& agent = start();
  for (int rank = 0; rank < agent.size(); ++rank) {
    EXPECT_EQ(agent.sync(fmt::format("worker{}", rank), &add, rank, 40), rank + 40);
    EXPECT_EQ(agent.sync(fmt::format("rank:{}", rank), &join, "ab", std::string("c")), "abc");
  }
  stop();
}

TEST_F(AgentTest, BringsRandomValuesAsTheyWere) {
  Agent& agent = start();
  for (unsigned i = 0; i < 60; ++i) {
    const unsigned seed = i * 7 + static_cast<unsigned>(world().rank());
    std::mt19937 random(seed);
    const Sample sample = random_sample(random);
    expect_equal(agent.sync(next(), &echo, sample), sample, seed);
  }
  stop();
}

TEST_F(AgentTest, BringsManyTensorsAndLargeOnes) {
  Agent& agent = start();
  Sample many;
  for (int i = 0; i < 3000; ++i) many.tensors.push_back(at::full({i % 5}, i));
  expect_equal(agent.sync(next(), &echo, many), many, 0);
  const at::Tensor large = at::arange(8 << 20, at::kFloat);
  EXPECT_TRUE(at::equal(agent.sync(next(), &twice, large), large * 2));
  stop();
}

TEST_F(AgentTest, KeepsOneTensorOneTensor) {
  Agent& agent = start();
  Sample sample;
  sample.tensors.assign(2, at::ones({3}));
  const Sample got = agent.sync(next(), &echo, sample);
  EXPECT_TRUE(got.tensors[0].is_same(got.tensors[1]));
  stop();
}

TEST_F(AgentTest, KeepsTemporariesOfAnArchiveApart) {
  Agent& agent = start();
  for (const std::int64_t size : {24, 1500, 1 << 19}) {
    const Doubled sent{.a = at::full({size}, 3, at::kFloat), .b = at::full({size}, 5, at::kFloat)};
    const Doubled got = agent.sync(next(), &echo_doubled, sent);
    EXPECT_TRUE(at::equal(got.a, sent.a.to(at::kDouble))) << size;
    EXPECT_TRUE(at::equal(got.b, sent.b.to(at::kDouble))) << size;
  }
  stop();
}

TEST_F(AgentTest, LetsTheCallerChangeATensorAfterAsync) {
  Agent& agent = start();
  at::Tensor x = at::ones({1 << 20});
  if (world().size() > 1) {  // within one process tensors are handed over
    Future<at::Tensor> y = agent.async(next(), &twice, x);
    x.fill_(100);
    EXPECT_TRUE(at::equal(y.wait(), at::full({1 << 20}, 2.0F)));
  }
  stop();
}

TEST_F(AgentTest, BringsErrorsWithTheirOrigin) {
  Agent& agent = start();
  const int callee = (world().rank() + 1) % world().size();
  const auto error = thrown<RemoteError>([&] { agent.sync(next(), &fail, "no such row"); });
  EXPECT_EQ(error.type(), "strata::InputError");
  EXPECT_EQ(error.text(), "no such row");
  EXPECT_EQ(error.remedy(), "Do something else.");
  EXPECT_EQ(error.rank(), callee);
  EXPECT_EQ(error.host(), agent.agent(callee).host);
  EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("{} (rank {}, host ", next(), callee)));
  EXPECT_EQ(thrown<RemoteError>([&] { agent.sync(next(), &fail_oddly); }).type(), "int");
  EXPECT_EQ(agent.sync(next(), &add, 1, 2), 3);
  stop();
}

TEST_F(AgentTest, RefusesUnknownPeersAndFunctions) {
  Agent& agent = start();
  EXPECT_THAT(thrown<InputError>([&] { agent.sync("werker0", &add, 1, 2); }).what(),
              testing::HasSubstr("did you mean 'worker0'?"));
  int (*unknown)(int, int) = [](int a, int) { return a; };
  EXPECT_THROW(agent.sync(next(), unknown, 1, 2), InputError);
  EXPECT_THAT(thrown<InputError>([] { static_cast<void>(registry().at("ad")); }).what(),
              testing::HasSubstr("did you mean 'add'?"));
  stop();
}

TEST_F(AgentTest, GivesUpAfterTheTimeout) {
  Agent& agent = start({.timeout = 300ms});
  const auto error = thrown<CommError>([&] { agent.sync(next(), &sleep_ms, 1500); });
  EXPECT_THAT(error.what(),
              testing::HasSubstr(fmt::format("sleep_ms was not answered by {} (rank ", next())));
  EXPECT_EQ(agent.counts().calls, 0U);
  stop();
}

TEST_F(AgentTest, GivesUpAfterTheTimeoutOfTheThread) {
  Agent& agent = start();
  {
    const CallTimeout timeout(50ms);
    EXPECT_THAT(thrown<CommError>([&] { agent.sync(next(), &sleep_ms, 1500); }).what(),
                testing::HasSubstr("within 50 ms"));
    const CallTimeout longer(60s);
    EXPECT_EQ(agent.sync(next(), &sleep_ms, 100), 100);
  }
  EXPECT_EQ(agent.sync(next(), &sleep_ms, 100), 100);
  EXPECT_THROW(CallTimeout(0ms), InputError);
  stop();
}

TEST_F(AgentTest, NestsCallsOnOneThread) {
  Agent& agent = start({.threads = 1});
  EXPECT_EQ(agent.sync(next(), &bounce, 64), 64);
  stop();
}

TEST_F(AgentTest, BoundsOutstandingCalls) {
  Agent& agent = start({.threads = 2, .max_outstanding = 3});
  std::vector<Future<int>> sums;
  for (int i = 0; i < 200; ++i) {
    sums.push_back(agent.async(next(), &add, i, 1));
    ASSERT_LE(agent.counts().calls, 3U);
  }
  for (int i = 0; i < 200; ++i) EXPECT_EQ(sums[at(i)].wait(), i + 1);
  stop();
}

TEST_F(AgentTest, KeepsObjectsWhileThereAreHandles) {
  Agent& agent = start();
  {
    Ref<Counter> counter = agent.remote<Counter>(next(), 5);
    EXPECT_EQ(counter.owner_name(), next());
    EXPECT_EQ(counter.is_owner(), world().size() == 1);
    EXPECT_EQ(counter.sync(&Counter::add, 2), 7);
    EXPECT_EQ(counter.async(&Counter::value).wait(), 7);
    const Ref<int> sum = counter.remote(&Counter::add, 3);
    EXPECT_EQ(sum.to_here(), 10);
    const Ref<int> five = agent.remote(next(), &add, 2, 3);
    EXPECT_EQ(five.to_here(), 5);
    if (counter.is_owner()) {
      EXPECT_EQ(counter.local()->value(), 10);
    }
  }
  stop();
}

TEST_F(AgentTest, TellsErrorsOfConstructionWhereAHandleIsUsed) {
  Agent& agent = start();
  {
    const Ref<int> broken = agent.remote(next(), &fail, "no value");
    EXPECT_EQ(thrown<RemoteError>([&] { static_cast<void>(broken.to_here()); }).text(), "no value");
  }
  stop();
}

TEST_F(AgentTest, SharesItsOwnObjects) {
  Agent& agent = start();
  {
    const Ref<Counter> own = agent.share(std::make_shared<Counter>(1));
    EXPECT_TRUE(own.is_owner());
    EXPECT_EQ(own.local()->value(), 1);
    EXPECT_EQ(agent.sync(next(), &wander, own, 0, 1U), 1);
    while (own.local()->value() != 2) std::this_thread::yield();  // wander's last call is not waited for
  }
  stop();
}

TEST_F(AgentTest, CountsHandlesRightOnRandomWalks) {
  Agent& agent = start({.threads = 4});
  std::mt19937 random(static_cast<unsigned>(world().rank()));
  for (int round = 0; round < 20; ++round) {
    std::vector<Future<int>> walks;
    for (int i = 0; i < 4; ++i) {
      const std::string first = fmt::format("rank:{}", random() % static_cast<unsigned>(world().size()));
      const std::string second = fmt::format("rank:{}", random() % static_cast<unsigned>(world().size()));
      Ref<Counter> counter =
          random() % 2 == 0 ? agent.remote<Counter>(first, 0) : agent.sync(first, &make_counter, second, 0);
      walks.push_back(agent.async(second, &wander, counter, 6, random()));
    }
    for (Future<int>& walk : walks) EXPECT_EQ(walk.wait(), 7);
  }
  stop();
}

TEST_F(AgentTest, KeepsNothingAfterManyCalls) {
  Agent& agent = start();
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(agent.sync(next(), &add, i, 1), i + 1);
  EXPECT_EQ(agent.counts().calls, 0U);
  EXPECT_EQ(agent.counts().objects, 0U);
  stop();
}

TEST_F(AgentTest, StartsAndEndsAgainAndAgain) {
  for (int i = 0; i < 10; ++i) {
    Agent& agent = start();
    EXPECT_EQ(agent.sync(next(), &add, 1, i), 1 + i);
    stop();
  }
}

TEST_F(AgentTest, FinishesCallsBeforeItEnds) {
  Agent& agent = start();
  std::vector<Future<int>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(agent.async(next(), &sleep_ms, 20 * i));
  agent.shutdown();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(calls[at(i)].wait(), 20 * i);
  EXPECT_THROW(agent.sync(next(), &add, 1, 2), CommError);
}

TEST_F(AgentTest, SaysWhichHandlesKeepItFromEnding) {
  Agent& agent = start({.timeout = 5s});
  Ref<Counter> kept = agent.remote<Counter>(next(), 1);
  EXPECT_EQ(kept.sync(&Counter::value), 1);
  const auto error = thrown<CommError>([&] { agent.shutdown(); });
  EXPECT_THAT(error.what(),
              testing::HasSubstr(fmt::format("{} handles of objects are left", world().size())));
  world().communicator().barrier();
  agent.shutdown(Agent::Ending::at_once);
}

TEST_F(AgentTest, FailsCallsOfAPeerThatEndsAtOnce) {
  Agent& agent = start();
  if (world().size() > 1 && world().rank() == 0) {
    Future<int> call = agent.async("worker1", &sleep_ms, 2000);
    EXPECT_THAT(thrown<CommError>([&] { call.wait(); }).what(), testing::HasSubstr("worker1 (rank 1, host "));
    EXPECT_THROW(agent.sync("worker1", &add, 1, 2), CommError);
  } else if (world().rank() == 1) {
    while (scene().sleepers == 0) std::this_thread::yield();
    agent.shutdown(Agent::Ending::at_once);
    while (scene().sleepers > 0) std::this_thread::sleep_for(10ms);  // its thread outlasts its agent
  }
  world().communicator().barrier();
}

TEST_F(AgentTest, FailsCallbacksThatComeAfterItsEnd) {
  Agent& agent = start();
  Future<int> call = agent.async("worker0", &add, 1, 2);
  ASSERT_TRUE(call.wait_for(60s));
  agent.shutdown();
  Future<int> late = call.then([](Future<int> done) { return done.wait(); });
  EXPECT_THAT(thrown<CommError>([&] { late.wait(); }).what(), testing::HasSubstr("the agent has ended"));
}

TEST_F(AgentTest, RefusesOptionsThatCannotBeMeant) {
  for (const Options& options :
       {Options{.threads = 0}, Options{.max_outstanding = 0}, Options{.timeout = 0ms}}) {
    const auto error = thrown<InputError>([&] { start(options); });
    EXPECT_THAT(error.what(), testing::HasSubstr("rpc::Options: 0 "));
  }
  const auto error = thrown<InputError>([&] { start({.busy_poll = -1us}); });
  EXPECT_THAT(error.what(), testing::HasSubstr("a busy_poll of -1 us"));
}

TEST_F(AgentTest, RefusesBadMapsOnAllRanks) {
  Options options;
  if (world().rank() == world().size() - 1) options.set_device_map("worker0", {{0, 99}});
  const auto error = thrown<InputError>([&] { start(options); });
  EXPECT_THAT(error.what(), testing::HasSubstr("worker0 has no cuda:99"));
}

}  // namespace
}  // namespace strata::rpc
