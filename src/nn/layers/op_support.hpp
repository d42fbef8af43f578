// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#if STRATA_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

#include "kernels/attention.hpp"
#include "strata/sampling/block.hpp"

struct CUstream_st;

/// What the differentiable operations share: values carried to the backward pass, streams, and pointers.
namespace strata::nn {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// A plain value that a forward pass hands to its backward pass.
template <typename Value>
struct Carried : torch::CustomClassHolder {
  explicit Carried(Value carried) : value(std::move(carried)) {}
  Value value;
};

inline constexpr const char* kCarried = "carried";

template <typename Value>
void carry(AutogradContext* context, Value value) {
  context->saved_data[kCarried] =
      c10::IValue::make_capsule(c10::make_intrusive<Carried<Value>>(std::move(value)));
}

template <typename Value>
const Value& carried(AutogradContext* context) {
  const auto capsule = context->saved_data.at(kCarried).toCapsule();
  return static_cast<const Carried<Value>&>(*capsule).value;
}

/// Gives this thread libtorch's number of OpenMP threads, with which the kernels for the cpu run.
inline void use_torch_threads() { at::internal::lazy_init_num_threads(); }

/// The stream that libtorch works on; null on the cpu.
inline CUstream_st* stream_of([[maybe_unused]] const at::Tensor& tensor) {
#if STRATA_WITH_CUDA
  if (tensor.is_cuda()) return c10::cuda::getCurrentCUDAStream(tensor.get_device()).stream();
#endif
  return nullptr;
}

/// The kernels of attention for the tensor's device.
inline const AttentionKernels& attention_kernels_for([[maybe_unused]] const at::Tensor& tensor) {
#if STRATA_WITH_CUDA
  if (tensor.is_cuda()) return cuda_attention_kernels();
#endif
  use_torch_threads();
  return cpu_attention_kernels();
}

inline at::TensorOptions options_of(const sampling::Block& block) {
  const auto device = block.device.is_cuda()
                          ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(block.device.index))
                          : c10::Device(c10::kCPU);
  return at::TensorOptions().dtype(at::kFloat).device(device);
}

inline const float* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

/// A tensor's elements as the kernels see them: T is float or Bf16.
template <typename T>
const T* elements(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}
template <typename T>
T* mutable_elements(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

}  // namespace strata::nn
