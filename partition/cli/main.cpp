// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include "cli/command_line.hpp"
#include "strata/util/system.hpp"

int main(int argc, char** argv) {
  strata::prepare_process();
  // --memory is a promise: freed blocks of this size go back to the system at once. Otherwise the allocator
  // keeps more of them the more threads there are.
  constexpr int kLargeBlock = 64 << 10;
  mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  mallopt(M_TRIM_THRESHOLD, kLargeBlock);
  return strata::partition::run_command_line(argc, argv);
}
