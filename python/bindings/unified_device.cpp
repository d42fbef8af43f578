// SPDX-License-Identifier: Apache-2.0
// The library strata/_unified_device.so, loaded by strata.enable_unified_device(): the device behind torch's
// PrivateUse1 name. Its tensors lie in host memory, and operators see them as the CPU tensors that they are;
// indexing is Python's (strata/unified_device.py).
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_index_put_impl.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstring>
#include <memory>

namespace strata::python {
namespace {

constexpr c10::DeviceType kUnified = c10::DeviceType::PrivateUse1;
const c10::Device kDevice{kUnified, 0};

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kUnified> {
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

/// torch asks a registered PrivateUse1 before CUDA, whose pinned memory stays what it was.
struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Device getDeviceFromPtr(void*) const override { return kDevice; }
  bool isPinnedPtr(const void* data) const override { return at::detail::getCUDAHooks().isPinnedPtr(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return at::detail::getCUDAHooks().getPinnedMemoryAllocator();
  }
};

void free_bytes(void* bytes) { delete static_cast<at::Tensor*>(bytes); }

/// A storage that holds a CPU tensor of its bytes.
c10::Storage allocate(std::size_t num_bytes) {
  const auto count = static_cast<std::int64_t>(num_bytes);
  auto bytes =
      std::make_unique<at::Tensor>(at::empty({count}, at::TensorOptions(at::kByte).device(at::kCPU)));
  void* const data = bytes->mutable_data_ptr();
  c10::DataPtr owner(data, bytes.release(), &free_bytes, kDevice);
  return c10::Storage(c10::Storage::use_byte_size_t(), num_bytes, std::move(owner), nullptr, false);
}

at::Tensor make(std::size_t num_bytes, at::ScalarType dtype) {
  return at::detail::make_tensor<c10::TensorImpl>(allocate(num_bytes),
                                                  c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                  at::scalarTypeToTypeMeta(dtype));
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> given,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  const at::ScalarType dtype = at::dtype_or_default(given);
  at::Tensor made = make(at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype)), dtype);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> given, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const at::ScalarType dtype = at::dtype_or_default(given);
  at::Tensor made = make(at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype)), dtype);
  made.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (format) made.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return made;
}

/// The same memory as a CPU tensor, which keeps the memory, and not the tensor.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (tensor.device().type() != kUnified) return tensor;
  const c10::DataPtr& owner = tensor.storage().data_ptr();
  TORCH_CHECK(owner.get_deleter() == &free_bytes,
              "strata: a tensor of the unified device with memory of others");
  const at::Tensor& bytes = *static_cast<const at::Tensor*>(owner.get_context());
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(bytes.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl* const impl = made.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return made;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  on_cpu(to).copy_(on_cpu(from));
  return to;
}

/// In new memory if there is not enough; results of operators begin without any.
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat>) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  const std::size_t needed =
      at::detail::computeStorageNbytesContiguous(sizes, self.itemsize(), self.storage_offset());
  if (needed > self.storage().nbytes()) {
    const at::Tensor before = on_cpu(self);
    c10::Storage storage = allocate(needed);
    std::memcpy(storage.mutable_data(), before.storage().data(), before.storage().nbytes());
    impl->set_storage_keep_dtype(std::move(storage));
  }
  impl->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) resize(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Tensor& put(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                const at::Tensor& values, bool accumulate, bool unsafe) {
  c10::List<std::optional<at::Tensor>> of_cpu;
  for (const std::optional<at::Tensor>& index : indices)
    of_cpu.push_back(index ? std::optional(on_cpu(*index).cpu()) : std::nullopt);
  at::Tensor target = on_cpu(self);
  at::_index_put_impl_(target, of_cpu, on_cpu(values).cpu(), accumulate, unsafe);
  return self;
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("resize_", &resize);
  m.impl("_index_put_impl_", &put);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>()); }

TORCH_LIBRARY(strata_unified, m) {
  m.def("on_cpu(Tensor tensor) -> Tensor", &on_cpu);
  m.def("register_hooks() -> ()", [] {
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
  });
}

}  // namespace
}  // namespace strata::python
