// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "green_context.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"

namespace strata::cuda {
namespace {

constexpr unsigned kVersion = 12050;  // the first version of CUDA with all functions that are called here

/// A function of the driver. Programs do not link the driver, so that they also run without it.
template <typename Function>
Function* find(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &entry, kVersion, cudaEnableDefault, &found);
  if (code != cudaSuccess || found != cudaDriverEntryPointSuccess || entry == nullptr) {
    cudaGetLastError();
    throw CudaError(fmt::format("the CUDA driver has no {}", name), "Use a driver of CUDA 12.5 or newer.");
  }
  return reinterpret_cast<Function*>(entry);
}
#define STRATA_DRIVER(function) find<decltype(function)>(#function)

void check_driver(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return;
  const char* text = nullptr;
  STRATA_DRIVER(cuGetErrorString)(code, &text);
  throw CudaError(fmt::format("{}: {}", call, text != nullptr ? text : "unknown error"));
}
#define STRATA_DRIVER_CHECK(function, ...) check_driver(STRATA_DRIVER(function)(__VA_ARGS__), #function)

/// The SMs of a GPU in units that can be assigned.
struct Units {
  std::vector<CUdevResource> whole;
  CUdevResource rest{};

  int num_rest() const {
    return rest.type == CU_DEV_RESOURCE_TYPE_SM ? static_cast<int>(rest.sm.smCount) : 0;
  }
};

Units units_of(int device) {
  CUdevResource all{};
  STRATA_DRIVER_CHECK(cuDeviceGetDevResource, device, &all, CU_DEV_RESOURCE_TYPE_SM);
  const unsigned least = all.sm.minSmPartitionSize;
  unsigned count = 0;
  STRATA_DRIVER_CHECK(cuDevSmResourceSplitByCount, nullptr, &count, &all, nullptr, 0, least);
  Units units;
  units.whole.resize(count);
  STRATA_DRIVER_CHECK(cuDevSmResourceSplitByCount, units.whole.data(), &count, &all, &units.rest, 0, least);
  units.whole.resize(count);
  return units;
}

SmGroup make_group(std::span<CUdevResource> resources, int device) {
  int num_sms = 0;
  for (const CUdevResource& resource : resources) num_sms += static_cast<int>(resource.sm.smCount);
  CUdevResourceDesc description = nullptr;
  STRATA_DRIVER_CHECK(cuDevResourceGenerateDesc, &description, resources.data(),
                      static_cast<unsigned>(resources.size()));
  CUgreenCtx context = nullptr;
  STRATA_DRIVER_CHECK(cuGreenCtxCreate, &context, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
  return SmGroup(std::make_shared<const backend::GreenContext>(context, num_sms));
}

std::ptrdiff_t share_of(std::size_t units, int percent, std::ptrdiff_t most) {
  constexpr double kPercent = 1e-2;
  return std::clamp<std::ptrdiff_t>(std::lround(static_cast<double>(units) * percent * kPercent), 1, most);
}

}  // namespace

SmSplit split_sms(Device device, const SmShares& shares) {
  constexpr int kAll = 100;
  const DeviceGuard guard(device);
  check(cudaFree(nullptr), "cudaFree");  // makes the device's primary context, to which the others belong
  Units units = units_of(device.index);
  const auto count = static_cast<std::ptrdiff_t>(units.whole.size());
  if (count < 2)
    throw CudaError(fmt::format(
        "the driver deals out {} units of the SMs of {}, and two are the least (under MPS there are none)",
        count, device.str()));
  const std::ptrdiff_t first = share_of(units.whole.size(), shares.first, count);
  const bool overlap = shares.first + shares.second > kAll;
  const std::ptrdiff_t second = share_of(units.whole.size(), shares.second,
                                         overlap ? count : std::max<std::ptrdiff_t>(1, count - first));
  SmSplit split;
  if (shares.first < kAll) split.first = make_group(std::span(units.whole).first(at(first)), device.index);
  if (shares.second < kAll) {
    std::vector<CUdevResource> last(units.whole.end() - second, units.whole.end());
    if (units.num_rest() > 0) last.push_back(units.rest);
    split.second = make_group(last, device.index);
  }
  return split;
}

backend::GreenContext::~GreenContext() {
  try {
    STRATA_DRIVER(cuGreenCtxDestroy)(handle_);
  } catch (const CudaError&) {  // it was there when the context was made
  }
}

CUstream_st* backend::GreenContext::create_stream(int priority) const {
  CUstream stream = nullptr;
  STRATA_DRIVER_CHECK(cuGreenCtxStreamCreate, &stream, handle_, CU_STREAM_NON_BLOCKING, priority);
  return stream;
}

}  // namespace strata::cuda
