// SPDX-License-Identifier: Apache-2.0
// This is strata-train as users call it: a small program that blocks the signals that ask for a stop, and
// then becomes the training program, which loads libtorch for up to a second. The signals stay blocked there,
// and a signal that arrives meanwhile waits for the listener. If it was not blocked, SIGUSR1 would kill the
// program.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "strata/train/stop_signals.hpp"

namespace {

void hold_stop_signals() {
  const sigset_t set = strata::train::stop_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

/// PREFIX/libexec/strata-train for PREFIX/bin/strata-train, by whatever name this program was called.
std::string training_program() {
  char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return {};
  const std::string path = self;
  const std::string folder = path.substr(0, path.rfind('/'));
  return folder.substr(0, folder.rfind('/')) + "/libexec/strata-train";
}

}  // namespace

int main(int, char** argv) {
  hold_stop_signals();
  // OpenMP threads that spin while they wait for their next loop would take cores from the stages beside
  // training. libgomp reads this variable when it is loaded.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const std::string program = training_program();
  execv(program.c_str(), argv);
  std::fprintf(stderr, "strata-train: cannot start %s: %s\n  Keep the folders bin and libexec together.\n",
               program.c_str(), std::strerror(errno));
  return 1;
}
