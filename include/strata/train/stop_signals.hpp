// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <signal.h>

#include <initializer_list>

namespace strata::train {

/// The signals that ask a run to stop. Needs only libc, because the starter of the training program blocks
/// these signals until a StopListener takes them.
inline sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

}  // namespace strata::train
