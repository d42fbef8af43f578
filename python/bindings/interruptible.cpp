// SPDX-License-Identifier: Apache-2.0
#include "interruptible.hpp"

#include <chrono>
#include <future>
#include <thread>

namespace strata::python {
namespace {

/// As long as a signal may wait.
constexpr std::chrono::milliseconds kPatience{100};

bool ends_within(const std::future<void>& done, std::chrono::milliseconds patience) {
  const nb::gil_scoped_release guard;
  return done.wait_for(patience) == std::future_status::ready;
}

/// Between the waits Python's signal handlers run.
void await(const std::future<void>& done) {
  while (!ends_within(done, kPatience))
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

/// What a signal left at work.
struct Interruptible::Left {
  std::shared_ptr<Interruptible> work;
  std::future<void> done;
};

/// Never freed, because its thread may be at work when everything else ends.
Interruptible::Left& Interruptible::left() {
  static Left& left = *new Left;
  return left;
}

void Interruptible::finish_left() {
  if (!left().work) return;
  await(left().done);
  left() = {};
}

void Interruptible::run(std::shared_ptr<Interruptible> work) {
  finish_left();
  std::promise<void> ended;
  std::future<void> done = ended.get_future();
  std::thread([raw = work.get(), ended = std::move(ended)]() mutable {
    raw->call();
    ended.set_value();
  }).detach();
  try {
    await(done);
  } catch (...) {
    left() = {.work = std::move(work), .done = std::move(done)};
    throw;
  }
}

bool Interruptible::await_left(int milliseconds) {
  if (!left().work) return true;
  if (!ends_within(left().done, std::chrono::milliseconds(milliseconds))) return false;
  left() = {};
  return true;
}

}  // namespace strata::python
