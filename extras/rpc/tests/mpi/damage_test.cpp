// SPDX-License-Identifier: Apache-2.0
// Messages that are damaged, and callees that have no memory left.
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "core.hpp"
#include "links/message_links.hpp"
#include "strata/rpc/agent.hpp"
#include "support/mpi_world.hpp"
#include "wire.hpp"

namespace strata::rpc {
namespace {

using namespace std::chrono_literals;
using test::world;

std::int64_t sum(const std::vector<at::Tensor>& tensors, const std::string& text) {
  std::int64_t total = static_cast<std::int64_t>(text.size());
  for (const at::Tensor& tensor : tensors) total += tensor.sum().item<std::int64_t>();
  return total;
}
int want_memory() {
  const std::unique_ptr<char[]> memory(new char[std::size_t{1} << 46]);
  return memory[std::size_t{1} << 45];
}

Registry registry() {
  Registry registry;
  registry.function("sum", &sum).function("want_memory", &want_memory);
  return registry;
}
std::string name_of(int rank) { return fmt::format("worker{}", rank); }

Options tcp_only() { return {.timeout = 20s, .channels = {Channel::tcp}}; }

/// Joins the others as an agent does, and then is none: it sends what it likes.
class Impostor {
 public:
  explicit Impostor(const Options& options) {
    world().communicator().together([] {});  // as an agent agrees that its options will do
    const AgentFacts own{.name = name_of(world().rank()), .host = "here", .maps = {}};
    std::vector<AgentFacts> agents;
    for (const std::string& text : world().communicator().all_gather(text_of(own)))
      agents.push_back(parse<AgentFacts>(text));
    channels_.emplace(world().communicator(), options, agents);
    links_.emplace(world().communicator());
    links_->start(inbox_);
  }
  void send(int to, std::string head) {
    links_->send(to, {.head = std::move(head), .bulk = {}, .memory = nullptr});
  }

 private:
  /// Reads nothing.
  struct Inbox final : MessageLinks::Receiver {
    MessageLinks::BulkMemory memory_for_bulk(int, const std::string&) override { return {}; }
    void arrived(int, std::string, std::shared_ptr<void>) override {}
    void lost(int, const std::string&) override {}
  };
  Inbox inbox_;
  std::optional<Channels> channels_;
  std::optional<MessageLinks> links_;  // ends first
};

/// The kind of any message but those by which ranks agree that a run has ended.
Kind likely_kind(std::mt19937& random) {
  const auto kind = static_cast<Kind>(random() % 16);
  if (kind == Kind::state) return Kind::ask_alive;
  return kind == Kind::verdict ? Kind::alive : kind;
}

/// The head of a message that an agent might send.
Head likely_head(std::mt19937& random) {
  Head head{.kind = likely_kind(random),
            .id = random() % 4,
            .function = random() % 2 == 0 ? "sum" : "want_memory",
            .target = {.owner = 0, .creator = static_cast<int>(random() % 3), .number = random() % 4},
            .created = {.owner = 0, .creator = 1, .number = random() % 4},
            .fork = random() % 4,
            .payload = std::string(random() % 40, static_cast<char>(random())),
            .payload_in_bulk = random() % 8 == 0 ? random() : 0};
  for (auto i = random() % 3; i > 0; --i) {
    head.tensors.push_back(
        {.dtype = static_cast<std::int8_t>(random() % 60),
         .sizes = {static_cast<std::int64_t>(random() % 100) - 5, std::int64_t{1} << (random() % 62)},
         .destination = {},
         .way = static_cast<TensorHead::Way>(random() % 6),
         .offset = random()});
  }
  for (auto i = random() % 3; i > 0; --i)
    head.handles.push_back(
        {.object = {.owner = static_cast<int>(random() % 2), .creator = 1, .number = random() % 4},
         .pass = random() % 4});
  return head;
}

/// Bytes at random, or a message with a few of its bytes changed, or cut off.
std::string damaged(std::mt19937& random) {
  std::string text = random() % 4 == 0 ? std::string(random() % 200, '\0') : text_of(likely_head(random));
  const bool all = text.find_first_not_of('\0') == std::string::npos;
  for (std::size_t i = all ? text.size() : random() % 8; i > 0 && !text.empty(); --i)
    text[random() % text.size()] = static_cast<char>(random());
  if (random() % 3 == 0) text.resize(text.size() - random() % (text.size() + 1));
  return text;
}

TEST(Parse, RefusesDamageWithoutTakingMemoryForIt) {
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = damaged(random);
    try {
      const Head head = parse<Head>(text);
      ASSERT_LE(head.tensors.size(), text.size());
      ASSERT_LE(head.payload.size(), text.size());
    } catch (const cereal::Exception&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5'000);
}

TEST(Parse, RefusesValuesThatAreCutOff) {
  const std::string whole = text_of(std::vector<std::vector<double>>{{1, 2}, {}, {3}});
  EXPECT_EQ(parse<std::vector<std::vector<double>>>(whole).size(), 3U);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_THROW(parse<std::vector<std::vector<double>>>(whole.substr(0, bytes)), cereal::Exception) << bytes;
}

/// Rank 1 answers nothing and sends what nobody can read; the others go on with each other.
TEST(Damage, EndsTheCallsOfThePeerThatSentIt) {
  if (world().size() == 1) return;
  if (world().rank() == 1) {
    Impostor impostor(tcp_only());
    impostor.send(0, "no message");
    world().communicator().barrier();
    return;
  }
  Agent agent(world().communicator(), name_of(world().rank()), registry(), tcp_only());
  if (world().rank() == 0) {
    try {
      agent.sync("worker1", &sum, std::vector<at::Tensor>{}, std::string("text"));
      ADD_FAILURE() << "nobody can have answered";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("worker1 (rank 1, host here) is gone: it sent a message that "
                                     "cannot be read"));
    }
    if (world().size() > 2) {
      EXPECT_EQ(agent.sync("worker2", &sum, std::vector<at::Tensor>{}, std::string("text")), 4);
    }
  }
  world().communicator().barrier();
}

TEST(Damage, OfAnyKindIsSurvived) {
  if (world().size() == 1) return;
  for (unsigned round = 0; round < 25; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    std::mt19937 random(round);
    if (world().rank() == 1) {
      Impostor impostor(tcp_only());
      for (int i = 0; i < 20; ++i) impostor.send(0, damaged(random));
      impostor.send(0, "no message");
      world().communicator().barrier();
      continue;
    }
    Agent agent(world().communicator(), name_of(world().rank()), registry(), tcp_only());
    if (world().rank() == 0) {
      try {  // one of the messages may be taken for the answer
        agent.sync("worker1", &sum, std::vector<at::Tensor>{}, std::string("text"));
      } catch (const Error&) {
      }
      EXPECT_EQ(agent.sync("worker0", &sum, std::vector<at::Tensor>{}, std::string("text")), 4);
    }
    world().communicator().barrier();
  }
}

// Sanitizers end a process that has no memory left.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

TEST(Callee, OutOfMemoryThrowsAndGoesOn) {
  Agent agent(world().communicator(), name_of(world().rank()), registry());
  const std::string next = name_of((world().rank() + 1) % world().size());
  try {
    agent.sync(next, &want_memory);
    ADD_FAILURE() << "64 TiB were found";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.type(), "std::bad_alloc");
  }
  EXPECT_EQ(agent.sync(next, &sum, std::vector<at::Tensor>{}, std::string("text")), 4);
  agent.shutdown();
}

/// While it lives, this process gets no more than so much memory.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t more_bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit lower = before_;
    lower.rlim_cur = pages * 4096 + more_bytes;
    setrlimit(RLIMIT_AS, &lower);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

class NoRoom : public testing::TestWithParam<Channel> {};

TEST_P(NoRoom, ForTensorsOrPayloadIsAnError) {
  if (world().size() == 1) return;
  Agent agent(world().communicator(), name_of(world().rank()), registry(),
              {.channels = {GetParam()}, .landing_bytes = 1 << 20});
  std::optional<MemoryLimit> limit;
  if (world().rank() == 1) limit.emplace(std::size_t{100} << 20);
  world().communicator().barrier();
  if (world().rank() == 0) {
    const auto expect_no_room = [&](const std::vector<at::Tensor>& tensors, const std::string& text) {
      try {
        agent.sync("worker1", &sum, tensors, text);
        ADD_FAILURE() << "there was room";
      } catch (const RemoteError& error) {
        EXPECT_EQ(error.type(), "strata::OutOfMemory") << error.what();
        EXPECT_EQ(error.rank(), 1);
      }
      EXPECT_EQ(agent.sync("worker1", &sum, std::vector{at::full({3}, 2, at::kLong)}, std::string("text")),
                10);
    };
    expect_no_room({at::full({std::int64_t{300} << 20}, 1, at::kByte)}, "");
    expect_no_room({}, std::string(std::size_t{300} << 20, 'x'));
  }
  world().communicator().barrier();
  limit.reset();
  agent.shutdown();
}

INSTANTIATE_TEST_SUITE_P(Each, NoRoom, testing::Values(Channel::shared_memory, Channel::tcp),
                         [](const auto& info) {
                           return info.param == Channel::tcp ? "Tcp" : "SharedMemory";
                         });

#endif

}  // namespace
}  // namespace strata::rpc
