// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/device.hpp"

#if STRATA_WITH_CUDA
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#endif

namespace strata::cuda {

#if STRATA_WITH_CUDA

namespace {

/// 13010 is 13.1.
std::string release(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::vector<std::string> library_versions() {
  std::vector<std::string> versions;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) versions.push_back("CUDA " + release(version));
  // 0 without a driver
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
    versions.push_back("CUDA driver " + release(version));
  return versions;
}

#else

std::vector<std::string> library_versions() { return {}; }

#endif

}  // namespace strata::cuda
