// SPDX-License-Identifier: Apache-2.0
#include "keepalive.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "strata/util/error.hpp"

namespace strata::torch_ranks {
namespace {

constexpr int kTag = 1;
constexpr int kFailure = static_cast<int>(ExitCode::failure);

}  // namespace

struct Keepalive::State {
  explicit State(std::shared_ptr<const Run> owner)
      : run(std::move(owner)),
        rank(run->self().world_rank),
        next((rank + 1) % run->size()),
        previous((rank + run->size() - 1) % run->size()),
        verdict_store(run->connect()),
        report_store(run->connect()),
        ring(run->connect_group("keepalive", rank, run->size())) {}

  void watch_verdict();
  void watch_next();
  void report_death();
  void end_with(const std::string& verdict);
  void end_without_store();
  void announce_end() const;

  const std::shared_ptr<const Run> run;
  const int rank, next, previous;
  const Run::Connection verdict_store, report_store;  // each for one thread
  GlooPtr ring;
  std::mutex speaking;  // a report is printed before the process ends
  bool spoken = false;
  std::thread verdict_watcher, next_watcher;
};

void Keepalive::State::watch_verdict() {
  std::string verdict;
  try {
    verdict_store->wait({kVerdictKey}, kForever);
    verdict = string_of(verdict_store->get(kVerdictKey));
  } catch (const std::exception&) {
    end_without_store();
  }
  if (verdict != kEnd) end_with(verdict);
}

void Keepalive::State::end_with(const std::string& verdict) {
  const std::lock_guard lock(speaking);
  std::fflush(nullptr);
  std::_Exit(std::atoi(verdict.substr(std::string_view(kAbort).size()).c_str()));
}

/// Rank 0 or torchrun, which kept the store, is gone.
void Keepalive::State::end_without_store() {
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // if it was rank 0, the last rank reports it
  const std::lock_guard lock(speaking);
  if (!spoken && rank == run->size() - 1)
    fmt::print(stderr, "strata: the launcher, which kept the run together, is gone. The run is ended.\n");
  std::fflush(nullptr);
  std::_Exit(kFailure);
}

void Keepalive::State::watch_next() {
  std::uint8_t message_byte = 0;
  std::vector<at::Tensor> message{bytes_at(&message_byte, 1)};
  try {
    ring->recv(message, next, kTag)->wait(kForever);
  } catch (const std::exception&) {
    report_death();
  }
}

void Keepalive::State::report_death() {
  const std::lock_guard lock(speaking);
  const std::string own = fmt::format("{}{} because rank {} is gone", kAbort, kFailure, next);
  try {
    const std::string verdict = string_of(report_store->compareSet(kVerdictKey, bytes_of(""), bytes_of(own)));
    if (verdict != own) return;      // a rank that calls abort() says so before it ends
  } catch (const std::exception&) {  // rank 0 is gone, and the store with it
  }
  spoken = true;
  fmt::print(stderr, "strata: {} is gone: its process ended without closing its world. The run is ended.\n",
             run->name_of(next));
  std::fflush(stderr);
}

void Keepalive::State::announce_end() const {
  std::uint8_t message_byte = 1;
  std::vector<at::Tensor> message{bytes_at(&message_byte, 1)};
  ring->send(message, previous, kTag)->wait(kForever);
}

Keepalive::Keepalive(std::shared_ptr<const Run> run) : state_(std::make_shared<State>(std::move(run))) {
  state_->verdict_watcher = std::thread([state = state_] { state->watch_verdict(); });
  state_->next_watcher = std::thread([state = state_] { state->watch_next(); });
}

Keepalive::~Keepalive() {
  if (state_->next_watcher.joinable()) state_->next_watcher.detach();
  if (state_->verdict_watcher.joinable()) state_->verdict_watcher.detach();
}

void Keepalive::close() {
  state_->announce_end();
  state_->next_watcher.join();
  if (state_->rank == 0) state_->report_store->compareSet(kVerdictKey, bytes_of(""), bytes_of(kEnd));
  state_->verdict_watcher.join();
  state_->ring.reset();
}

}  // namespace strata::torch_ranks
