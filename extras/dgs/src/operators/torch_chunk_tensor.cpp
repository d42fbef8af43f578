// SPDX-License-Identifier: Apache-2.0
#include "operators/torch_chunk_tensor.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_select.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "operators/arguments.hpp"
#include "operators/session.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

ChunkTensor::Spec spec_of(const std::vector<std::int64_t>& shape, at::ScalarType dtype,
                          std::int64_t capacity_per_gpu) {
  const bool usable = (shape.size() == 1 || shape.size() == 2) && shape.front() >= 0 && shape.back() >= 0;
  if (!usable) {
    throw InputError(fmt::format("a ChunkTensor cannot have the shape [{}]", fmt::join(shape, ", ")),
                     "Give one or two sizes that are not negative.");
  }
  if (capacity_per_gpu < 0) {
    throw InputError(fmt::format("capacity_per_gpu is {}", capacity_per_gpu),
                     "Give the bytes that every GPU may keep; 0 leaves all in host memory.");
  }
  const Count cols = shape.size() == 1 ? 1 : shape.back();
  const auto bytes = static_cast<Count>(size_of(dtype_of(dtype)));
  if (cols > 0 && shape.front() > std::numeric_limits<Count>::max() / bytes / cols)
    throw InputError(
        fmt::format("[{}] elements of {} bytes have no count of 64 bits", fmt::join(shape, ", "), bytes));
  return {
      .rows = shape.front(), .cols = cols, .dtype = dtype_of(dtype), .capacity_per_gpu = capacity_per_gpu};
}

}  // namespace

TorchChunkTensor::TorchChunkTensor(std::vector<std::int64_t> shape, at::ScalarType dtype,
                                   std::int64_t capacity_per_gpu)
    : group_(dgs::group()), shape_(std::move(shape)), dtype_(dtype) {
  ChunkTensor::Spec spec;
  group_->machine().communicator().together([&] { spec = spec_of(shape_, dtype, capacity_per_gpu); });
  synchronize(group_->device());  // memory that returns now may be read by work under way
  tensor_ = group_->create(spec);
}

const ChunkTensor& TorchChunkTensor::rows() const {
  if (tensor_) return *tensor_;
  throw InputError("the ChunkTensor was closed", "Use it before close(), or make another.");
}

at::TensorOptions TorchChunkTensor::options(Device device) const {
  return at::TensorOptions().dtype(dtype_).device(torch_device(device));
}

void TorchChunkTensor::load(const at::Tensor& data) {
  static_cast<void>(rows());
  if (data.sizes() != at::IntArrayRef(shape_) || data.scalar_type() != dtype_ || !data.is_contiguous()) {
    throw InputError(
        fmt::format("{} [{}] with strides [{}] cannot be loaded into {} [{}]",
                    c10::toString(data.scalar_type()), fmt::join(data.sizes(), ", "),
                    fmt::join(data.strides(), ", "), c10::toString(dtype_), fmt::join(shape_, ", ")),
        "Give a contiguous tensor of the same shape and type.");
  }
  if (!data.device().is_cpu())
    throw InputError(fmt::format("the tensor is on {}", data.device().str()), "Give a CPU tensor.");
  tensor_->load(data.const_data_ptr(), group_->pool());
}

at::Tensor TorchChunkTensor::view(const ChunkTensor::View& rows, Device device) const {
  const Count size = rows.rows * tensor_->spec().cols;
  if (size == 0) return at::empty({0}, options(device));
  return at::from_blob(
      rows.data, {size}, [tensor = tensor_](void*) {}, options(device), torch_device(device));
}

at::Tensor TorchChunkTensor::host_view() const { return view(rows().host(), {}); }

at::Tensor TorchChunkTensor::gpu_view() const { return view(rows().own_gpu(), rows().device()); }

at::Tensor TorchChunkTensor::index(const at::Tensor& ids) const {
  const Device device = rows().device();
  const cuda::DeviceGuard guard(device);
  const at::Tensor here = ids_on(ids, device, "the index");
  at::Tensor out = at::empty({here.numel(), tensor_->spec().cols}, options(device));
  read(here, out);
  return out;
}

void TorchChunkTensor::index_into(const at::Tensor& ids, const at::Tensor& out) const {
  const Device device = rows().device();
  const cuda::DeviceGuard guard(device);
  const at::Tensor here = ids_on(ids, device, "the index");
  const Count cols = tensor_->spec().cols;
  const bool usable = out.dim() == 2 && out.size(0) >= here.numel() && out.size(1) == cols &&
                      out.is_contiguous() && out.scalar_type() == dtype_ &&
                      out.device() == torch_device(device);
  if (!usable) {
    throw InputError(
        fmt::format("{} rows of {} {} cannot be written to {} [{}] on {}", here.numel(), cols,
                    c10::toString(dtype_), c10::toString(out.scalar_type()), fmt::join(out.sizes(), ", "),
                    out.device().str()),
        fmt::format("Give a contiguous tensor on {} with as many rows or more.", torch_device(device).str()));
  }
  read(here, out);
}

void TorchChunkTensor::read(const at::Tensor& ids, const at::Tensor& out) const {
  tensor_->index(span_of(ids), {.data = out.mutable_data_ptr(), .dtype = tensor_->spec().dtype},
                 current_stream(tensor_->device()), group_->pool());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> TorchChunkTensor::split(const at::Tensor& ids) const {
  const Device device = rows().device();
  const cuda::DeviceGuard guard(device);
  const at::Tensor here = ids_on(ids, device, "the index");
  tensor_->check(span_of(here));
  const ChunkTensor::Rows own = tensor_->own_rows();
  const at::Tensor host = at::ge(here, tensor_->rows_on_gpus());
  const at::Tensor local = at::logical_and(at::ge(here, own.first), at::lt(here, own.first + own.count));
  const at::Tensor remote = at::logical_not(at::logical_or(host, local));
  return {at::masked_select(here, local), at::masked_select(here, remote), at::masked_select(here, host)};
}

void TorchChunkTensor::close() {
  static_cast<void>(rows());
  synchronize(tensor_->device());
  group_->close(tensor_);
  tensor_.reset();
}

}  // namespace strata::dgs
