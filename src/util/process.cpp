// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <csignal>

#include "strata/util/system.hpp"

namespace strata {

void prepare_process() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);  // without it, the soft limit stays
}

}  // namespace strata
