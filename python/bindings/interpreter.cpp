// SPDX-License-Identifier: Apache-2.0
#include "interpreter.hpp"

#include <condition_variable>
#include <mutex>

namespace strata::python {
namespace {

/// Never freed, because threads may come after the end of everything.
struct Door {
  std::mutex mutex;
  std::condition_variable left;
  int inside = 0;
  bool closed = false;
};

Door& door() {
  static Door& door = *new Door;
  return door;
}

}  // namespace

Interpreter::Entry::Entry() {
  {
    const std::lock_guard lock(door().mutex);
    if (door().closed) return;
    ++door().inside;
  }
  gil_.emplace();
}

Interpreter::Entry::~Entry() {
  if (!gil_) return;
  gil_.reset();
  const std::lock_guard lock(door().mutex);
  if (--door().inside == 0) door().left.notify_all();
}

void Interpreter::close() {
  const nb::gil_scoped_release guard;
  std::unique_lock lock(door().mutex);
  door().closed = true;
  door().left.wait(lock, [] { return door().inside == 0; });
}

}  // namespace strata::python
