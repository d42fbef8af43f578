// SPDX-License-Identifier: Apache-2.0
#include "group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "mailbox.hpp"
#include "messages.hpp"
#include "strata/util/error.hpp"

namespace strata::torch_ranks {
namespace {

using comm::Communicator;

constexpr const char* kGone = "If a rank has ended, its own message says why.";

/// Waits for the keepalive, which reports a rank that is gone better than gloo and ends this process.
void give_way_to_keepalive() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

/// Makes a call to gloo; its errors name the call and the rank.
template <typename Work>
auto call(const char* name, const Run& run, Work&& work) {
  run.check_process();
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    give_way_to_keepalive();
    throw CommError(fmt::format("{} failed: {} ({})", name, text_of(error), run.self().who()), kGone);
  }
}

c10d::ReduceOp native(Communicator::Op op) {
  switch (op) {
    case Communicator::Op::sum:
      return c10d::ReduceOp::SUM;
    case Communicator::Op::min:
      return c10d::ReduceOp::MIN;
    case Communicator::Op::max:
      return c10d::ReduceOp::MAX;
    case Communicator::Op::bit_or:
      return c10d::ReduceOp::BOR;
  }
  return c10d::ReduceOp::UNUSED;
}

at::ScalarType native(comm::Backend::Type type) {
  switch (type) {
    case comm::Backend::Type::f32:
      return at::kFloat;
    case comm::Backend::Type::f64:
      return at::kDouble;
    case comm::Backend::Type::i64:
      return at::kLong;
  }
  return at::kByte;
}

at::Tensor integers(std::span<const std::int64_t> values) {
  return at::from_blob(const_cast<std::int64_t*>(values.data()), {std::ssize(values)}, at::kLong);
}

/// Messages of a group; their errors name the group's rank.
class CheckedMessages final : public comm::Backend::Messages {
 public:
  CheckedMessages(Gloo& gloo, const Run& run) : run_(run), messages_(gloo, run.self()) {}
  void send(const void* data, Count bytes, int peer) override {
    call("a send", run_, [&] { messages_.send(data, bytes, peer); });
  }
  void receive(void* data, Count bytes, int peer) override {
    call("a receive", run_, [&] { messages_.receive(data, bytes, peer); });
  }
  void wait() override {
    call("an exchange of messages", run_, [&] { messages_.wait(); });
  }

 private:
  const Run& run_;
  GlooMessages messages_;
};

}  // namespace

Group::Group(std::shared_ptr<const Run> run, std::string key, std::vector<int> world_ranks)
    : run_(std::move(run)),
      key_(std::move(key)),
      world_ranks_(std::move(world_ranks)),
      rank_(
          static_cast<int>(std::ranges::find(world_ranks_, run_->self().world_rank) - world_ranks_.begin())),
      gloo_(run_->connect_group(key_, rank_, size())) {}

Group::~Group() {
  static_cast<void>(gloo_.release());  // others may still use it, and so may messages that are on their way
}

std::string Group::next_key() { return fmt::format("{}.{}", key_, groups_made_++); }

std::shared_ptr<comm::Backend> Group::duplicate() {
  barrier();  // which waits for late ranks as long as it takes; connecting does not
  return std::make_shared<Group>(run_, next_key(), world_ranks_);
}

std::shared_ptr<comm::Backend> Group::split(int color, int key) {
  struct Choice {
    int color, key, rank;
  };
  const std::int64_t own = (static_cast<std::int64_t>(color) << 32) | static_cast<std::uint32_t>(key);
  const std::vector<std::int64_t> own_choices(world_ranks_.size(), own);
  std::vector<std::int64_t> all(world_ranks_.size());
  exchange(own_choices, all);
  std::vector<Choice> members;
  for (int rank = 0; rank < size(); ++rank) {
    const std::int64_t choice = all[at(rank)];
    if (static_cast<int>(choice >> 32) == color)
      members.push_back({.color = color, .key = static_cast<int>(choice), .rank = rank});
  }
  std::ranges::stable_sort(members, {}, &Choice::key);
  std::vector<int> world_ranks;
  for (const Choice& member : members) world_ranks.push_back(world_ranks_[at(member.rank)]);
  const std::string name = fmt::format("{}:{}", next_key(), color);
  if (world_ranks.size() == 1) return comm::solo_backend(self());
  return std::make_shared<Group>(run_, name, std::move(world_ranks));
}

std::shared_ptr<comm::Backend> Group::split_by_host() {
  const std::string& own = run_->ranks()[at(self().world_rank)].memory;
  const auto first = std::ranges::find(run_->ranks(), own, &Arrival::memory) - run_->ranks().begin();
  return split(static_cast<int>(first), rank_);
}

void Group::close() {
  if (!run_->is_own_process()) return;  // the threads of the group are not in a fork
  barrier();                            // after which nobody uses the group
  gloo_.reset();
}

void Group::barrier() {
  call("a barrier", *run_, [&] {
    c10d::BarrierOptions options;
    options.timeout = kForever;
    run_->begin([&] { return gloo_->barrier(options); })->wait(kForever);
  });
}

void Group::broadcast(void* data, Count bytes, int root) {
  if (root < 0 || root >= size())
    throw CommError(fmt::format("a broadcast from rank {} of {} ({})", root, size(), self().who()));
  call("a broadcast", *run_, [&] {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = kForever;
    std::vector<at::Tensor> tensors{bytes_at(data, bytes)};
    run_->begin([&] { return gloo_->broadcast(tensors, options); })->wait(kForever);
  });
}

void Group::all_reduce(void* values, Count count, Type type, Communicator::Op op) {
  call("an all-reduce", *run_, [&] {
    c10d::AllreduceOptions options;
    options.reduceOp = native(op);
    options.timeout = kForever;
    std::vector<at::Tensor> tensors{at::from_blob(values, {count}, native(type))};
    run_->begin([&] { return gloo_->allreduce(tensors, options); })->wait(kForever);
  });
}

void Group::exchange(std::span<const std::int64_t> send, std::span<std::int64_t> received) {
  call("an exchange of numbers", *run_, [&] {
    c10d::AllToAllOptions options;
    options.timeout = kForever;
    at::Tensor from = integers(send), to = integers(received);
    std::vector<std::int64_t> even;
    run_->begin([&] { return gloo_->alltoall_base(to, from, even, even, options); })->wait(kForever);
  });
}

std::unique_ptr<comm::Backend::Messages> Group::messages() {
  return std::make_unique<CheckedMessages>(*gloo_, *run_);
}

std::optional<std::int64_t> Group::min_within(std::int64_t value, std::chrono::milliseconds patience) {
  run_->check_process();
  // gloo keeps the value until its own time is over.
  const auto least = std::make_shared<std::int64_t>(value);
  try {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MIN;
    options.timeout = patience;
    std::vector<at::Tensor> tensors{at::from_blob(
        least.get(), {1}, [least](void*) {}, at::kLong)};
    run_->begin([&] { return gloo_->allreduce(tensors, options); })->wait(kForever);
    return *least;
  } catch (const std::exception&) {  // some rank has not come, or is gone
    return std::nullopt;
  }
}

std::unique_ptr<comm::Backend::Mailbox> Group::mailbox(std::vector<int> peers, std::size_t bytes) {
  return call("a mailbox", *run_, [&] {
    const StoreMailbox::Between between{.group = key_, .rank = rank_, .peers = std::move(peers)};
    auto box = std::make_unique<StoreMailbox>(run_->connect(), between, bytes);
    barrier();  // after which the places of all ranks are there
    return box;
  });
}

}  // namespace strata::torch_ranks
