// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <sys/resource.h>

#include <csignal>

#include "strata/util/system.hpp"

namespace strata {

std::filesystem::path library_folder() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&library_folder), &found) == 0) return {};
  return std::filesystem::absolute(found.dli_fname).parent_path();
}

void prepare_process() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);  // without it, the soft limit stays
}

}  // namespace strata
