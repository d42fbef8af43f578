// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

/// Conversions of operators: arguments from torch to Strata's types, and Strata's errors to torch's.
namespace strata::dgs {

/// Runs `work` and turns its errors into those that torch gives to Python: InputError into ValueError,
/// std::out_of_range into IndexError, OutOfMemory and CommError into torch's own.
void translate_errors(const std::function<void()>& work);

/// The result of `work`, with its errors translated.
template <typename Work>
auto translated(Work&& work) {
  decltype(work()) result;
  translate_errors([&] { result = work(); });
  return result;
}

DType dtype_of(at::ScalarType type);  ///< throws InputError for types that no ChunkTensor has
at::Device torch_device(Device device);
Device device_of(const at::Device& device);  ///< throws InputError for one that is neither CPU nor CUDA
Device current_gpu();                        ///< torch's current device; the cpu without a GPU
cuda::Stream current_stream(Device device);  ///< torch's; a view
void synchronize(Device device);             ///< waits for all work of the device

/// Memory of torch's on a device, kept until it ends. Kernels that use it must be on torch's current stream.
class Memory {
 public:
  explicit Memory(Device device) : device_(device) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* allocate(std::size_t bytes);
  std::function<void*(std::size_t)> allocator() {
    return [this](std::size_t bytes) { return allocate(bytes); };
  }

 private:
  Device device_;
  std::vector<at::Tensor> blocks_;
};

/// One row of int32 or int64 on `device`, contiguous: the tensor itself if it is that. `name` is the
/// argument's, for errors.
at::Tensor ids_on(const at::Tensor& ids, Device device, const char* name);
IdSpan span_of(const at::Tensor& ids);

}  // namespace strata::dgs
