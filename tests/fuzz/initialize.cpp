// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>

/// libFuzzer calls this once. Warnings about input would fill the log.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}
