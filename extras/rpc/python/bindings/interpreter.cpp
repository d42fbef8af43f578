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

bool enter() {
  const std::lock_guard lock(door().mutex);
  if (door().closed) return false;
  ++door().inside;
  return true;
}

void leave() {
  const std::lock_guard lock(door().mutex);
  if (--door().inside == 0) door().left.notify_all();
}

/// What Python knows of a thread that it did not make. Without this, each entry would make it and its stack
/// anew, and give both back to the system.
class ThreadState {
 public:
  ThreadState() : held_(PyGILState_Ensure()), state_(PyEval_SaveThread()) {}
  /// Frees the state, except after the end of the interpreter, which has freed it.
  ~ThreadState() {
    if (!enter()) return;
    PyEval_RestoreThread(state_);
    PyGILState_Release(held_);
    leave();
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  const PyGILState_STATE held_;
  PyThreadState* const state_;
};

/// Keeps a thread state until this thread ends, if it is none of Python's.
void keep_thread_state() {
  thread_local std::optional<ThreadState> state;
  if (!state && PyGILState_GetThisThreadState() == nullptr) state.emplace();
}

}  // namespace

Interpreter::Entry::Entry() {
  if (!enter()) return;
  keep_thread_state();
  gil_.emplace();
}

Interpreter::Entry::~Entry() {
  if (!gil_) return;
  gil_.reset();
  leave();
}

void Interpreter::close() {
  const nb::gil_scoped_release guard;
  std::unique_lock lock(door().mutex);
  door().closed = true;
  door().left.wait(lock, [] { return door().inside == 0; });
}

}  // namespace strata::python
