// SPDX-License-Identifier: Apache-2.0
// strata-train as users call it: a small program that holds the signals that ask for a stop, and becomes the
// one that trains, which loads libtorch for up to a second. What is blocked stays blocked in that one, and a
// signal that comes meanwhile waits for its listener; unblocked, SIGUSR1 would kill it.
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

/// PREFIX/libexec/strata-train of PREFIX/bin/strata-train, whatever the caller named this one.
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
  // Threads of OpenMP that wait for their next loop by spinning keep the cores from the stages beside
  // training. libgomp reads how they wait when it is loaded.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const std::string program = training_program();
  execv(program.c_str(), argv);
  std::fprintf(stderr, "strata-train: cannot start %s: %s\n  Keep the folders bin and libexec together.\n",
               program.c_str(), std::strerror(errno));
  return 1;
}
