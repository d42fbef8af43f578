// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.hpp"

#include <pthread.h>

namespace strata::partition {
namespace {

/// Ends the process as its parent expects after a signal.
void die_of(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(signal);
}

}  // namespace

InterruptGuard::InterruptGuard(StopFlag& stop) : stop_{stop} {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread{[this] { wait(); }};
}

InterruptGuard::~InterruptGuard() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes the waiting thread
  thread_.join();
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

void InterruptGuard::wait() {
  for (;;) {
    int signal = 0;
    sigwait(&signals_, &signal);
    if (done_) return;
    if (signal_ != 0)
      continue;  // timeout(1) and some terminals send it twice; removing the files takes moments
    if (!stop_.cleanup_needed()) die_of(signal);
    signal_ = signal;
    stop_.request();
  }
}

}  // namespace strata::partition
