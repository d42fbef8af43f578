#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "layout.hpp"
#include "strata/store/chunk_tensor.hpp"

namespace strata::store {

/// Rows one after the other in host memory.
struct HostRows {
  const TensorSpec* spec = nullptr;
  const std::byte* data = nullptr;
};

/// ChunkTensor::gather on the cpu. Throws Error for an id out of range.
void gather_on_cpu(const HostRows& rows, const RowIds& ids, float* out, ThreadPool& pool);

constexpr int kMaxStripeGpus = 16;   ///< GPUs of one host
constexpr int kInlineSegments = 16;  ///< segments that travel with a launch; more are read from device memory

/// Every stratum of a tensor as one GPU sees it. A view, passed to the kernel by value.
struct GatherTable {
  const std::byte* replicated = nullptr;
  const std::byte* host = nullptr;
  std::array<const std::byte*, kMaxStripeGpus> stripes{};
  int num_gpus = 0;
  int stripe_shift = 0;
  int num_segments = 0;
  std::array<SegmentLayout, kInlineSegments> inline_segments{};
  const SegmentLayout* device_segments = nullptr;  ///< used if num_segments > kInlineSegments
  Count row_bytes = 0;
};

struct GatherShape {
  DType dtype = DType::f32;
  Count cols = 0;
  int num_multiprocessors = 0;
};

/// ChunkTensor::gather on a GPU, asynchronous on `stream`.
void gather_on_gpu(const GatherTable& table, const GatherShape& shape, const RowIds& ids, float* out,
                   const cuda::Stream& stream);

}  // namespace strata::store
