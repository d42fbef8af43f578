// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "strata/comm/backend.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

/// A rank on its own has nobody to wait for.
class SoloBackend final : public Backend {
 public:
  explicit SoloBackend(Member self) : self_(std::move(self)) {}

  const char* name() const override { return "solo"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const Member& self() const override { return self_; }

  std::shared_ptr<Backend> duplicate() override { return solo_backend(self_); }
  std::shared_ptr<Backend> split(int, int) override { return solo_backend(self_); }
  std::shared_ptr<Backend> split_by_host() override { return solo_backend(self_); }
  void close() override {}

  void barrier() override {}
  void broadcast(void*, Count, int root) override {
    if (root != 0) fail(fmt::format("a broadcast from rank {} of 1", root));
  }
  void all_reduce(void*, Count, Type, Communicator::Op) override {}
  void exchange(std::span<const std::int64_t> send, std::span<std::int64_t> received) override {
    received[0] = send[0];
  }

  std::unique_ptr<Messages> messages() override { return std::make_unique<NoMessages>(*this); }
  std::optional<std::int64_t> min_within(std::int64_t value, std::chrono::milliseconds) override {
    return value;
  }
  std::unique_ptr<Mailbox> mailbox(std::vector<int> peers, std::size_t) override {
    for (const int peer : peers) fail_to_reach(peer);
    return std::make_unique<EmptyMailbox>();
  }

  void abort(int exit_code) override {
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CommError(fmt::format("{} ({})", what, self_.who()));
  }
  [[noreturn]] void fail_to_reach(int peer) const { fail(fmt::format("a message with rank {} of 1", peer)); }

  class NoMessages final : public Messages {
   public:
    explicit NoMessages(const SoloBackend& group) : group_(group) {}
    void send(const void*, Count, int peer) override { group_.fail_to_reach(peer); }
    void receive(void*, Count, int peer) override { group_.fail_to_reach(peer); }
    void wait() override {}

   private:
    const SoloBackend& group_;
  };

  class EmptyMailbox final : public Mailbox {
   public:
    bool post(std::size_t, std::span<const std::byte>) override { return false; }
    std::optional<std::size_t> take(std::span<std::byte>) override { return std::nullopt; }
    bool has_left(std::size_t) override { return true; }
  };

  Member self_;
};

}  // namespace

std::shared_ptr<Backend> solo_backend() { return solo_backend({.world_rank = 0, .host = host_name()}); }

std::shared_ptr<Backend> solo_backend(const Backend::Member& self) {
  return std::make_shared<SoloBackend>(self);
}

}  // namespace strata::comm
