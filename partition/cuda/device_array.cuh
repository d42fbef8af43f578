// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <utility>
#include <vector>

#include "cuda/refusals.hpp"
#include "strata/cuda/kernels.cuh"
#include "strata/util/types.hpp"

namespace strata::partition {

/// An array in the memory of the GPU. An owner; the contents are undefined at first. Throws OutOfMemory.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(Count size) : size_{size} {
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    if (bytes == 0) return;
    if (cudaMalloc(reinterpret_cast<void**>(&data_), bytes) == cudaSuccess) return;
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    refuse_device_memory(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(free),
                         static_cast<std::int64_t>(total));
  }
  explicit DeviceArray(const std::vector<T>& values, cudaStream_t stream)
      : DeviceArray(static_cast<Count>(values.size())) {
    write(values.data(), size_, stream);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  Count size() const { return size_; }

  void fill(int byte, cudaStream_t stream) {
    if (size_ > 0) cuda::check(cudaMemsetAsync(data_, byte, bytes_of(size_), stream), "cudaMemsetAsync");
  }
  /// Copies `values` to the GPU; they may change when it returns.
  void write(const T* values, Count count, cudaStream_t stream) {
    if (count == 0) return;
    cuda::check(cudaMemcpyAsync(data_, values, bytes_of(count), cudaMemcpyHostToDevice, stream),
                "to the GPU");
  }
  /// Copies to `values`; waits for the stream.
  void read(T* values, Count count, cudaStream_t stream) const {
    if (count > 0)
      cuda::check(cudaMemcpyAsync(values, data_, bytes_of(count), cudaMemcpyDeviceToHost, stream),
                  "from the GPU");
    cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  std::vector<T> read_all(cudaStream_t stream) const {
    std::vector<T> values(static_cast<std::size_t>(size_));
    read(values.data(), size_, stream);
    return values;
  }
  T read_one(cudaStream_t stream) const {
    T value{};
    read(&value, 1, stream);
    return value;
  }

 private:
  static std::size_t bytes_of(Count count) { return static_cast<std::size_t>(count) * sizeof(T); }

  T* data_ = nullptr;
  Count size_ = 0;
};

/// A stream of the current device. An owner.
class DeviceStream {
 public:
  DeviceStream() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  ~DeviceStream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

template <typename Work>
__global__ void do_each(Count count, Work work) {
  for (Count i = cuda::first_item<Count>(); i < count; i += cuda::item_stride<Count>()) work(i);
}

/// Calls work(i) for i < count on the GPU.
template <typename Work>
void for_each(Count count, const Work& work, cudaStream_t stream) {
  if (count == 0) return;
  do_each<<<cuda::blocks_for(count), cuda::kThreads, 0, stream>>>(count, work);
  cuda::check_launch("do_each");
}

__device__ inline void add_count(Count* to, Count amount) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(amount));
}

}  // namespace strata::partition
