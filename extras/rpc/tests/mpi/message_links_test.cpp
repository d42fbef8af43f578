// SPDX-License-Identifier: Apache-2.0
#include "links/message_links.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "support/mpi_world.hpp"

namespace strata::rpc {
namespace {

using test::world;

/// Keeps what comes. Heads that begin with "refuse" find no room, and "riddle 0" cannot be read.
class Inbox final : public MessageLinks::Receiver {
 public:
  struct Letter {
    std::string head, bulk;
    bool dropped = false;
  };

  MessageLinks::BulkMemory memory_for_bulk(int, const std::string& head) override {
    if (head.starts_with("refuse")) throw std::runtime_error("no room");
    const auto bytes = at(std::stoull(head.substr(head.find(' ') + 1)));
    const auto memory = std::make_shared<std::string>(bytes, '\0');
    const std::span<std::byte> all(reinterpret_cast<std::byte*>(memory->data()), bytes);
    return {.bulk = {all.first(bytes / 3), all.subspan(bytes / 3)}, .memory = memory};
  }
  void arrived(int peer, std::string head, std::shared_ptr<void> memory) override {
    if (head.starts_with("riddle")) throw std::runtime_error("nobody understands it");
    const std::lock_guard lock(mutex_);
    const auto bulk = std::static_pointer_cast<std::string>(memory);
    letters_[peer].push_back({std::move(head), bulk ? *bulk : "", bulk == nullptr});
    changed_.notify_all();
  }
  void lost(int peer, const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    lost_[peer] = reason;
    changed_.notify_all();
  }

  std::vector<Letter> wait_for(int peer, std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return letters_[peer].size() >= count; });
    return letters_[peer];
  }
  std::string wait_for_loss(int peer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lost_.contains(peer); });
    return lost_[peer];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::vector<Letter>> letters_;
  std::map<int, std::string> lost_;
};

std::string contents(int from, int to, int number) {
  std::mt19937 random(static_cast<unsigned>(from * 1000003 + to * 1009 + number));
  const std::size_t bytes = number % 7 == 0 ? random() % 3'000'000 : random() % 2000;
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// The text in two pieces, one of which may be empty.
MessageLinks::Message message(std::string head, std::string text) {
  const auto memory = std::make_shared<std::string>(std::move(text));
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(memory->data()), memory->size());
  return {.head = std::move(head),
          .bulk = {all.first(all.size() / 2), all.subspan(all.size() / 2)},
          .memory = memory};
}

/// Every other rank looks for messages before it sleeps.
std::chrono::microseconds busy_poll() { return std::chrono::microseconds(world().rank() % 2 == 0 ? 0 : 100); }

TEST(MessageLinks, DeliverAllInOrderBothWaysAtOnce) {
  constexpr int kCount = 100;
  Inbox inbox;
  MessageLinks links(world().communicator(), busy_poll());
  links.start(inbox);
  std::vector<std::jthread> senders;
  for (int to = 0; to < world().size(); ++to) {
    if (to == world().rank()) continue;
    senders.emplace_back([&links, to] {
      for (int i = 0; i < kCount; ++i) {
        std::string text = contents(world().rank(), to, i);
        std::string head = fmt::format("{} {}", i, text.size());
        links.send(to, message(std::move(head), std::move(text)));
      }
    });
  }
  for (int from = 0; from < world().size(); ++from) {
    if (from == world().rank()) continue;
    const auto letters = inbox.wait_for(from, kCount);
    ASSERT_EQ(letters.size(), at(kCount));
    for (int i = 0; i < kCount; ++i) {
      const std::string expected = contents(from, world().rank(), i);
      ASSERT_EQ(letters[at(i)].head, fmt::format("{} {}", i, expected.size()));
      ASSERT_EQ(letters[at(i)].bulk, expected) << "message " << i << " from rank " << from;
    }
  }
  senders.clear();
  world().communicator().barrier();
}

TEST(MessageLinks, KeepTheOrderOfEveryThreadThatSends) {
  constexpr int kCount = 20, kThreads = 3;
  Inbox inbox;
  MessageLinks links(world().communicator(), busy_poll());
  links.start(inbox);
  std::vector<std::jthread> senders;
  for (int thread = 0; thread < kThreads; ++thread) {
    senders.emplace_back([&links, thread] {
      for (int i = 0; i < kCount; ++i) {
        for (int to = 0; to < world().size(); ++to) {
          if (to == world().rank()) continue;
          const std::string text = contents(world().rank(), to, i);
          links.send(to, message(fmt::format("{}:{} {}", thread, i, text.size()), text));
        }
      }
    });
  }
  for (int from = 0; from < world().size(); ++from) {
    if (from == world().rank()) continue;
    std::vector<int> next(kThreads, 0);
    for (const Inbox::Letter& letter : inbox.wait_for(from, std::size_t{kThreads} * kCount)) {
      const auto thread = at(std::stoi(letter.head));
      const int number = std::stoi(letter.head.substr(letter.head.find(':') + 1));
      ASSERT_EQ(number, next.at(thread)++) << "of thread " << thread << " of rank " << from;
      ASSERT_EQ(letter.bulk, contents(from, world().rank(), number)) << "of rank " << from;
    }
  }
  senders.clear();
  world().communicator().barrier();
}

TEST(MessageLinks, DropBulkThatFindsNoRoom) {
  Inbox inbox;
  MessageLinks links(world().communicator(), busy_poll());
  links.start(inbox);
  const int next = (world().rank() + 1) % world().size();
  const int previous = (world().rank() + world().size() - 1) % world().size();
  if (next != world().rank()) {
    links.send(next, message("refuse 5000000", std::string(5'000'000, 'x')));
    links.send(next, message("take 3", "abc"));
    const auto letters = inbox.wait_for(previous, 2);
    EXPECT_TRUE(letters[0].dropped);
    EXPECT_FALSE(letters[1].dropped);
    EXPECT_EQ(letters[1].bulk, "abc");
  }
  world().communicator().barrier();
}

TEST(MessageLinks, GiveUpWhoseMessagesCannotBeRead) {
  Inbox inbox;
  MessageLinks links(world().communicator(), busy_poll());
  links.start(inbox);
  if (world().rank() > 0) {
    links.send(0, message("riddle 0", ""));
    EXPECT_FALSE(inbox.wait_for_loss(0).empty());
  }
  for (int peer = 1; world().rank() == 0 && peer < world().size(); ++peer)
    EXPECT_EQ(inbox.wait_for_loss(peer), "nobody understands it");
  world().communicator().barrier();
}

TEST(MessageLinks, SayWhoLeft) {
  Inbox inbox;
  {
    MessageLinks links(world().communicator(), busy_poll());
    links.start(inbox);
    if (world().rank() > 0) {
      links.send(0, message("last 2", "xy"));
      links.close();
    } else {
      for (int peer = 1; peer < world().size(); ++peer) {
        EXPECT_EQ(inbox.wait_for_loss(peer), "");
        EXPECT_EQ(inbox.wait_for(peer, 1).front().bulk, "xy");
        links.send(peer, message("nobody 1", "z"));
      }
    }
  }
  world().communicator().barrier();
}

TEST(MessageLinks, CallBackUntilToldToStop) {
  Inbox inbox;
  MessageLinks links(world().communicator(), busy_poll());
  links.start(inbox);
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  links.repeat(std::chrono::milliseconds(1), [&] {
    const std::lock_guard lock(mutex);
    changed.notify_all();
    return ++calls < 3;
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return calls == 3; });
  }
  links.close();
  EXPECT_EQ(calls, 3);
  world().communicator().barrier();
}

}  // namespace
}  // namespace strata::rpc
