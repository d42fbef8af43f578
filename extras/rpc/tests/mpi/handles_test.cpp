// SPDX-License-Identifier: Apache-2.0
// Handles under random schedules: the ranks pass handles of all ranks' objects to each other, objects hold
// handles of objects, and every message waits for a random time, so that what one rank says overtakes what
// another one says.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <compare>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "strata/rpc/agent.hpp"
#include "support/mpi_world.hpp"

namespace strata::rpc {
namespace {

using namespace std::chrono_literals;
using test::world;

/// Tells nodes apart. Nodes hold only handles of smaller ones, because objects that hold each other would
/// never die.
struct NodeId {
  std::int64_t number = 0;
  int maker = 0;
  auto operator<=>(const NodeId&) const = default;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(number, maker);
  }
};

class Node;

struct Held {
  NodeId id;
  Ref<Node> node;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(id, node);
  }
};

/// What the functions of this file need of the test; static functions have no other way to it.
struct Scene {
  std::atomic<Agent*> agent{nullptr};
  std::atomic<int> nodes{0};
  std::mutex mutex;
  std::vector<Held> bag;
};
Scene& scene() {
  static Scene instance;
  return instance;
}

class Node {
 public:
  explicit Node(const NodeId& id) : id_(id) { ++scene().nodes; }
  ~Node() { --scene().nodes; }
  NodeId id() const { return id_; }
  void hold(const Held& other) {
    const std::lock_guard lock(mutex_);
    held_.push_back(other);
  }
  std::vector<Held> held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  const NodeId id_;
  mutable std::mutex mutex_;
  std::vector<Held> held_;
};

void use(const Held& held) {
  try {
    EXPECT_EQ(held.node.sync(&Node::id), held.id);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}
void keep(const Held& held) {
  const std::lock_guard lock(scene().mutex);
  scene().bag.push_back(held);
}
/// A handle of this rank's, which keeps it or not; nothing if it has none.
std::vector<Held> pick(unsigned random) {
  Held dropped;  // its handle ends without the lock
  const std::lock_guard lock(scene().mutex);
  std::vector<Held>& bag = scene().bag;
  if (bag.empty()) return {};
  std::swap(bag[random % bag.size()], bag.back());
  std::vector<Held> picked{bag.back()};
  if (random % 3 == 0) {
    dropped = std::move(bag.back());
    bag.pop_back();
  }
  return picked;
}
std::string random_peer(std::mt19937& random) {
  return fmt::format("rank:{}", random() % static_cast<unsigned>(world().size()));
}
/// Goes on a walk, on which each rank may use it, keep it or pass it on in several copies.
void wander(const Held& held, int steps, unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 3 == 0) keep(held);
  if (random() % 3 == 0) use(held);
  if (steps == 0) return;
  for (auto copies = random() % 3; copies > 0; --copies)
    scene().agent.load()->async(random_peer(random), &wander, held, steps - 1,
                                static_cast<unsigned>(random()));
}

Registry registry() {
  Registry registry;
  registry.function("keep", &keep).function("pick", &pick).function("wander", &wander);
  registry.constructor<Node, NodeId>("Node").method("Node::id", &Node::id);
  registry.method("Node::hold", &Node::hold).method("Node::held", &Node::held);
  return registry;
}

/// One thread of a rank that makes, passes, uses and drops handles.
class Player {
 public:
  Player(int thread, unsigned seed) : thread_(thread), random_(seed) {}

  void play(int moves) {
    try {
      for (int i = 0; i < moves; ++i) move();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }

 private:
  void move() {
    Agent& agent = *scene().agent.load();
    switch (random_() % 6) {
      case 0:
      case 1: {
        const NodeId id{.number = next_++, .maker = world().rank() * 100 + thread_};
        const Held made{id, agent.remote<Node>(random_peer(random_), id)};
        agent.async(random_peer(random_), &wander, made, 4, static_cast<unsigned>(random_()));
        return keep(made);
      }
      case 2:
        for (const Held& each : agent.sync(random_peer(random_), &pick, static_cast<unsigned>(random_())))
          keep(each);
        return;
      case 3:
        return link();
      case 4:
        for (const Held& node : pick(static_cast<unsigned>(random_())))
          for (const Held& held : node.node.sync(&Node::held)) use(held);
        return;
      default:
        for (const Held& each : pick(static_cast<unsigned>(random_()))) use(each);
    }
  }
  void link() {
    const std::vector<Held> a = pick(static_cast<unsigned>(random_())),
                            b = pick(static_cast<unsigned>(random_()));
    if (a.empty() || b.empty() || a[0].id == b[0].id) return;
    const bool is_first_larger = b[0].id < a[0].id;
    const Held &larger = is_first_larger ? a[0] : b[0], &smaller = is_first_larger ? b[0] : a[0];
    larger.node.async(&Node::hold, smaller);
  }

  const int thread_;
  std::mt19937 random_;
  std::int64_t next_ = 0;
};

class HandlesTest : public testing::TestWithParam<int> {
 protected:
  Agent& start(unsigned seed, int most_us) {
    setenv("STRATA_MESSAGE_DELAYS", fmt::format("{},{}", seed, most_us).c_str(), 1);
    agent_.emplace(world().communicator(), fmt::format("worker{}", world().rank()), registry(),
                   Options{.threads = 4, .timeout = 30s});
    unsetenv("STRATA_MESSAGE_DELAYS");
    scene().agent = &*agent_;
    world().communicator().barrier();
    return *agent_;
  }

  std::optional<Agent> agent_;
};

std::vector<Held> kept_handles() {
  const std::lock_guard lock(scene().mutex);
  return scene().bag;
}
void drop_kept_handles() {
  std::vector<Held> dropped;  // their handles end without the lock
  const std::lock_guard lock(scene().mutex);
  dropped.swap(scene().bag);
}

TEST_P(HandlesTest, KeepObjectsAsLongAsThereAreAny) {
  const auto seed = static_cast<unsigned>(GetParam());
  Agent& agent = start(seed, 2000);
  const unsigned own_seed = seed * 1000 + static_cast<unsigned>(world().rank() * 10);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([=] { Player(t, own_seed + static_cast<unsigned>(t)).play(60); });
  threads.clear();
  for (const Held& each : kept_handles()) use(each);
  EXPECT_NO_THROW(agent.shutdown(Agent::Ending::graceful, &drop_kept_handles)) << "seed " << seed;
  EXPECT_EQ(scene().nodes, 0) << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Seeds, HandlesTest, testing::Range(1, 9));

TEST(MessageDelays, AreRefusedOnAllRanksIfTheyCannotBeRead) {
  for (const char* wrong : {"", "7", "7,", "7,fast", "-1,5", "7,5,3"}) {
    if (world().rank() == 0) setenv("STRATA_MESSAGE_DELAYS", wrong, 1);
    EXPECT_THROW(Agent(world().communicator(), fmt::format("worker{}", world().rank()), registry()), Error)
        << wrong;
    unsetenv("STRATA_MESSAGE_DELAYS");
  }
}

}  // namespace
}  // namespace strata::rpc
