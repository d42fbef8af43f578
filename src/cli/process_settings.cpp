// SPDX-License-Identifier: Apache-2.0
#include "process_settings.hpp"

#include <malloc.h>

#include <climits>
#include <cstdlib>

namespace strata::cli {

void set_environment() {
  // Bit-for-bit repeatable matrix products on the GPU need a fixed workspace.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  // comm::LaunchOrder orders recorded launches among the others, so NCCL need not do it once more.
  setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
}

KeptMemory::KeptMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

KeptMemory::~KeptMemory() {
  constexpr int kDefaultMaps = 65536, kDefaultThreshold = 128 << 10;  // mallopt(3)
  mallopt(M_MMAP_MAX, kDefaultMaps);
  mallopt(M_TRIM_THRESHOLD, kDefaultThreshold);
  malloc_trim(0);
}

}  // namespace strata::cli
