// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <source_location>
#include <string>

#include "strata/util/error.hpp"

/// Checks of CUDA calls and launches; only for files that CUDA builds compile.
namespace strata::cuda {

[[noreturn]] inline void fail(cudaError_t code, const char* call, std::source_location where) {
  throw CudaError(std::string(call) + ": " + cudaGetErrorName(code) + ": " + cudaGetErrorString(code), {},
                  where);
}

inline void check(cudaError_t code, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (code != cudaSuccess) fail(code, call, where);
}

/// Throws if the kernel launch before it failed.
inline void check_launch(const char* kernel, std::source_location where = std::source_location::current()) {
  check(cudaGetLastError(), kernel, where);
}

}  // namespace strata::cuda
