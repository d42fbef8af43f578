// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "core.hpp"
#include "strata/util/error.hpp"
#include "wire.hpp"

/// The graceful end: rounds in which every rank sends rank 0 its numbers of sent and received messages.
/// Nothing is under way anywhere once two rounds in a row find all ranks idle and the same numbers, as many
/// messages received as sent (Mattern's four counters).
namespace strata::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::uint64_t sum_of(const std::vector<RestState>& states, std::uint64_t RestState::*field) {
  std::uint64_t sum = 0;
  for (const RestState& state : states) sum += state.*field;
  return sum;
}

/// Calls of listen() between two questions, and the least silence that is a
/// fault: a host that is short of cores or memory is slow to answer.
constexpr std::uint64_t kTicksPerQuestion = 25;
constexpr milliseconds kQuestionPeriod = kTicksPerQuestion * Core::kTick;
constexpr milliseconds kLeastSilence{5000};

bool same(const RestState& a, const RestState& b) {
  return a.sent == b.sent && a.received == b.received && a.idle && b.idle;
}

Verdict judge(const std::vector<RestState>& states, const std::vector<RestState>& before) {
  Verdict verdict{.round = states.front().round};
  verdict.at_rest = std::ranges::equal(states, before, same) &&
                    sum_of(states, &RestState::sent) == sum_of(states, &RestState::received);
  for (const RestState& state : states) verdict.handles += state.handles;
  verdict.late = std::ranges::any_of(states, &RestState::late);
  return verdict;
}

}  // namespace

RestState Core::own_state(std::uint64_t round, bool late) const {
  // Messages make work before they are counted as received, so the order of these two matters.
  const bool idle = workers_->is_idle();
  const std::lock_guard lock(mutex_);
  return {.round = round,
          .sent = sent_,
          .received = received_,
          .handles = static_cast<std::int64_t>(objects_.forks.size()),
          .idle = idle && pending_.empty(),
          .late = late};
}

void Core::receive_state(int from, const RestState& state) {
  std::vector<RestState> states;
  Verdict verdict;
  {
    const std::lock_guard lock(mutex_);
    states_[from] = state;
    const bool complete =
        std::ssize(states_) == size() &&
        std::ranges::all_of(states_, [&](const auto& each) { return each.second.round == state.round; });
    if (!complete) return;
    for (const auto& [rank, each] : states_) states.push_back(each);
    verdict = judge(states, last_states_);
    last_states_ = std::move(states);
  }
  for (int to = 0; to < size(); ++to) send(to, {.kind = Kind::verdict}, {.payload = text_of(verdict)});
}

void Core::receive_verdict(const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  verdict_ = verdict;
  changed_.notify_all();
}

void Core::note_fault(const std::string& fault) {
  const std::lock_guard lock(mutex_);
  if (fault_.empty()) fault_ = fault;
  changed_.notify_all();
}

/// While this rank waits for the others to end, it asks each of them for a sign of life. Threads of their own
/// give it, however long their calls take, so that only a process that is stopped or cannot be reached is
/// silent. Questions are counted rather than time, so that a rank that was itself stopped suspects nobody.
void Core::listen() {
  {
    const std::lock_guard lock(mutex_);
    if (!awaits_end_ || ++ticks_ % kTicksPerQuestion != 0) return;
  }
  const milliseconds limit = std::max(options().timeout, kLeastSilence);
  for (int peer = 0; peer < size(); ++peer) {
    std::int64_t& unanswered = unanswered_[at(peer)];
    {
      const std::lock_guard lock(mutex_);
      if (peer == rank() || lost_.contains(peer)) continue;
    }
    if (unanswered * kQuestionPeriod >= limit) {
      note_fault(fmt::format("{} has not answered for {} ms: it is stopped, or cannot be reached",
                             describe(peer), limit.count()));
    }
    ++unanswered;
    send(peer, {.kind = Kind::ask_alive});
  }
}

/// Sends the others the fault for which this rank ends, so that their errors name the rank at which it began.
void Core::announce_end() noexcept try {
  std::string fault;
  {
    const std::lock_guard lock(mutex_);
    fault = fault_;
  }
  if (fault.empty()) return;
  for (int to = 0; to < size(); ++to)
    if (to != rank()) send(to, {.kind = Kind::ending}, {.payload = fault});
} catch (const std::exception&) {  // no memory; they learn only that this rank has ended
}

Verdict Core::agree(std::uint64_t round, bool late) {
  send(0, {.kind = Kind::state}, {.payload = text_of(own_state(round, late))});
  Lock lock(mutex_);
  changed_.wait(lock, [&] {
    return closed_ || !fault_.empty() || !lost_.empty() || (verdict_ && verdict_->round == round);
  });
  // A rank that has received the last verdict may end before this one receives it.
  if (verdict_ && verdict_->round == round) return *verdict_;
  if (closed_) throw CommError("the agent ended while it waited for the others to end");
  if (!fault_.empty()) throw CommError(fault_);
  changed_.wait_for(lock, std::chrono::seconds(5),
                    [&] { return !fault_.empty() || (verdict_ && verdict_->round == round); });
  if (verdict_ && verdict_->round == round) return *verdict_;
  if (!fault_.empty()) throw CommError(fault_);
  std::rethrow_exception(loss_of(lost_.begin()->first));
}

void Core::shutdown(const std::function<void()>& drop_handles) {
  constexpr milliseconds kLongestRest{10};
  const auto deadline = steady_clock::now() + options().timeout;
  milliseconds rest{1};
  {
    const std::lock_guard lock(mutex_);
    awaits_end_ = true;
  }
  for (std::uint64_t round = 1;; ++round) {
    const Verdict verdict = agree(round, steady_clock::now() > deadline);
    if (verdict.at_rest && verdict.handles == 0) return;
    if (verdict.at_rest && drop_handles) drop_handles();
    if (verdict.at_rest && verdict.late) {
      throw CommError(fmt::format("the agents cannot end: {} handles of objects are left after {} ms",
                                  verdict.handles, options().timeout.count()),
                      "Drop all handles before shutdown(), on all ranks.");
    }
    std::this_thread::sleep_for(rest);
    rest = std::min(rest * 2, kLongestRest);
  }
}

}  // namespace strata::rpc
