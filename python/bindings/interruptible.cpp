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
std::shared_ptr<Interruptible::Left>& Interruptible::left() {
  static auto& left = *new std::shared_ptr<Left>;
  return left;
}

void Interruptible::finish_left() {
  // Several of Python's threads may wait for the same work.
  const std::shared_ptr<Left> waited_for = left();
  if (!waited_for) return;
  await(waited_for->done);
  if (left() == waited_for) left().reset();
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
    left() = std::make_shared<Left>(Left{.work = std::move(work), .done = std::move(done)});
    throw;
  }
}

bool Interruptible::await_left(int milliseconds) {
  const std::shared_ptr<Left> waited_for = left();
  if (!waited_for) return true;
  if (!ends_within(waited_for->done, std::chrono::milliseconds(milliseconds))) return false;
  left().reset();
  return true;
}

}  // namespace strata::python
