// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strata::cli {

/// Sets the variables that libraries read when they begin: call it before CUDA and NCCL begin.
/// What the user has set stays.
void set_environment();

/// While it lives, malloc keeps freed memory: every step allocates and frees tensors of tens of megabytes,
/// whose pages would fault anew in the next step. Afterwards it returns memory as it does by default.
class KeptMemory {
 public:
  KeptMemory();
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
};

}  // namespace strata::cli
