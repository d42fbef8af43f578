// SPDX-License-Identifier: Apache-2.0
#include "interruptible.hpp"

#include <chrono>
#include <future>
#include <thread>

namespace strata::python {
namespace {

bool ends_within(const std::shared_future<void>& done, std::chrono::milliseconds patience) {
  const nb::gil_scoped_release guard;
  return done.wait_for(patience) == std::future_status::ready;
}

void await(const std::shared_future<void>& done) {
  for (Interruptible::Wait wait; !ends_within(done, Interruptible::Wait::kPiece);) wait.go_on();
}

std::function<void(std::chrono::seconds)>& watch() {
  static auto& watch = *new std::function<void(std::chrono::seconds)>;
  return watch;
}

}  // namespace

void Interruptible::Wait::go_on() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  constexpr std::int64_t kPerSecond = std::chrono::seconds(1) / kPiece;
  if (++pieces_ % kPerSecond == 0 && watch()) watch()(std::chrono::seconds(pieces_ / kPerSecond));
}

void Interruptible::Wait::on_second(std::function<void(std::chrono::seconds)> other) {
  watch() = std::move(other);
}

/// Work that a signal left behind.
struct Interruptible::Left {
  std::shared_ptr<Interruptible> work;
  std::shared_future<void> done;
};

/// The waits of all threads; read and changed only with the GIL, which waits give up. Never freed, because
/// threads may be at work when everything else ends.
std::vector<std::shared_ptr<Interruptible::Left>>& Interruptible::left() {
  static auto& left = *new std::vector<std::shared_ptr<Left>>;
  return left;
}

void Interruptible::finish_left() {
  while (!left().empty()) {
    const std::shared_ptr<Left> first = left().front();
    await(first->done);
    std::erase(left(), first);
  }
}

void Interruptible::run(std::shared_ptr<Interruptible> work) {
  finish_left();
  std::promise<void> ended;
  const std::shared_future<void> done = ended.get_future().share();
  std::thread([raw = work.get(), ended = std::move(ended)]() mutable {
    raw->call();
    ended.set_value();
  }).detach();
  try {
    await(done);
  } catch (...) {
    left().push_back(std::make_shared<Left>(Left{.work = std::move(work), .done = done}));
    throw;
  }
}

bool Interruptible::await_left(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!left().empty()) {
    const std::shared_ptr<Left> first = left().front();
    const auto rest = end - std::chrono::steady_clock::now();
    if (!ends_within(first->done, std::chrono::duration_cast<std::chrono::milliseconds>(rest))) return false;
    std::erase(left(), first);
  }
  return true;
}

}  // namespace strata::python
