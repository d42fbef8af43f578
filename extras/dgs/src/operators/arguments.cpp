// SPDX-License-Identifier: Apache-2.0
#include "operators/arguments.hpp"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#if STRATA_WITH_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace strata::dgs {
namespace {

template <typename TorchError>
[[noreturn]] void raise(const Error& error) {
  const std::string& remedy = error.remedy();
  const c10::SourceLocation where{error.where().function_name(), error.where().file_name(),
                                  error.where().line()};
  throw TorchError(where, remedy.empty() ? error.what() : fmt::format("{}\n  {}", error.what(), remedy));
}

}  // namespace

void translate_errors(const std::function<void()>& work) {
  try {
    work();
  } catch (const InputError& error) {
    raise<c10::ValueError>(error);
  } catch (const OutOfMemory& error) {
    raise<c10::OutOfMemoryError>(error);
  } catch (const CommError& error) {
    raise<c10::DistError>(error);
  } catch (const Error& error) {
    raise<c10::Error>(error);
  } catch (const std::out_of_range& error) {
    throw c10::IndexError(c10::SourceLocation{__func__, __FILE__, __LINE__}, error.what());
  }
}

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kInt:
      return DType::i32;
    case at::kLong:
      return DType::i64;
    case at::kFloat:
      return DType::f32;
    case at::kDouble:
      return DType::f64;
    case at::kHalf:
      return DType::f16;
    case at::kBFloat16:
      return DType::bf16;
    case at::kBool:
    case at::kByte:
      return DType::u8;
    default:
      throw InputError(fmt::format("a ChunkTensor cannot have elements of {}", c10::toString(type)),
                       "Its types are int32, int64, float, double, bool, half, bfloat16 and uint8.");
  }
}

at::Device torch_device(Device device) {
  return device.is_cuda() ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))
                          : at::Device(at::kCPU);
}

Device device_of(const at::Device& device) {
  if (device.is_cpu()) return {};
  if (device.is_cuda()) return {.kind = Device::Kind::cuda, .index = device.index()};
  throw InputError(fmt::format("a tensor is on {}", device.str()), "Give tensors on the CPU or a CUDA GPU.");
}

#if STRATA_WITH_CUDA
Device current_gpu() {
  if (cuda::device_count() == 0) return {};
  return {.kind = Device::Kind::cuda, .index = c10::cuda::current_device()};
}

cuda::Stream current_stream(Device device) {
  if (!device.is_cuda()) return {};
  return cuda::Stream::borrow(
      device, c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device.index)).stream());
}

void synchronize(Device device) {
  if (!device.is_cuda()) return;
  const cuda::DeviceGuard guard(device);
  c10::cuda::device_synchronize();
}
#else
Device current_gpu() { return {}; }
cuda::Stream current_stream(Device) { return {}; }
void synchronize(Device) {}
#endif

void* Memory::allocate(std::size_t bytes) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(torch_device(device_));
  blocks_.push_back(at::empty({static_cast<std::int64_t>(bytes)}, options));
  return blocks_.back().mutable_data_ptr();
}

at::Tensor ids_on(const at::Tensor& ids, Device device, const char* name) {
  if (ids.dim() != 1 || (ids.scalar_type() != at::kLong && ids.scalar_type() != at::kInt)) {
    throw InputError(
        fmt::format("{} has {} dimensions of {}", name, ids.dim(), c10::toString(ids.scalar_type())),
        "Give one row of int64 or int32.");
  }
  return ids.to(torch_device(device)).contiguous();
}

IdSpan span_of(const at::Tensor& ids) {
  return {.data = ids.const_data_ptr(), .size = ids.numel(), .wide = ids.scalar_type() == at::kLong};
}

}  // namespace strata::dgs
