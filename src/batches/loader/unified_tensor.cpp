// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <stdexcept>
#include <vector>

#include "loader/expand.hpp"
#include "strata/batches/graph.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::batches {
namespace {

/// A type of this size; rows are copied as they are.
DType type_of(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return DType::u8;
    case 2:
      return DType::f16;
    case 4:
      return DType::i32;
    case 8:
      return DType::i64;
    default:
      throw InputError(fmt::format("elements of {} bytes cannot be gathered", element_bytes),
                       "Give elements of 1, 2, 4 or 8 bytes.");
  }
}

tensor::TensorSpec spec_of(const HostRows& rows) {
  return {.name = "unified tensor",
          .rows = rows.rows,
          .cols = static_cast<Count>(rows.row_bytes / rows.element_bytes),
          .dtype = type_of(rows.element_bytes),
          .scatters = true};
}

}  // namespace

UnifiedTensor::UnifiedTensor(Device device, const HostRows& rows, const tensor::GatherSettings& settings)
    : device_(device), tensor_device_(device), tensor_(wrap(rows)), id_check_(std::make_shared<IdCheck>()) {
  tensor_.configure(settings);
}

/// For the device, or for the cpu if CUDA cannot register the memory.
tensor::ChunkTensor UnifiedTensor::wrap(const HostRows& rows) {
  const tensor::TensorSpec spec = spec_of(rows);
  try {
    return tensor::ChunkTensor::wrap(device_, spec, rows.data, rows.keep_alive);
  } catch (const CudaError& error) {
    spdlog::warn("{}: the rows are gathered on the CPU and copied", error.what());
    tensor_device_ = {};
    return tensor::ChunkTensor::wrap({}, spec, rows.data, rows.keep_alive);
  }
}

/// Names the first id that is no row.
void UnifiedTensor::check(const Ids& ids, const cuda::Stream& stream) const {
  const IdSpan span{.data = ids.data, .size = ids.count, .wide = ids.wide};
  if (const auto bad = id_check_->find(span, rows(), stream))
    throw std::out_of_range(
        fmt::format("index {} is {}, which is no row of {}", bad->position, bad->id, rows()));
}

/// Brings the ids to where the tensor is read from.
template <typename Run>
void UnifiedTensor::run(const Ids& ids, const cuda::Stream& stream, bool checks, Run work) {
  if (ids.count == 0) return;
  const cuda::DeviceGuard guard(device_);
  if (checks) check(ids, stream);
  tensor::RowIds rows{.data = ids.data, .size = ids.count, .wide = ids.wide};
  if (reads_in_place()) return work(rows);
  std::vector<std::byte> copy(at(ids.count) * (ids.wide ? 8 : 4));
  cuda::copy_async(copy.data(), ids.data, copy.size(), stream);
  stream.synchronize();
  rows.data = copy.data();
  work(rows);
}

/// Gathers on the cpu.
void UnifiedTensor::gather_and_copy(const tensor::RowIds& rows, void* out, const cuda::Stream& stream) {
  const std::size_t bytes = at(rows.size) * tensor_.spec().row_bytes();
  const std::lock_guard lock(staging_mutex_);
  std::byte* const gathered =
      staging_.reserve(cuda::Memory::pinned, static_cast<Count>(bytes), "gathered rows", device_);
  tensor_.gather(rows, tensor::RowsOut{.data = gathered, .dtype = tensor_.spec().dtype}, {}, pool_);
  cuda::copy_async(out, gathered, bytes, stream);
  stream.synchronize();
}

void UnifiedTensor::gather(const Ids& ids, void* out, const cuda::Stream& stream, bool checks) {
  run(ids, stream, checks, [&](const tensor::RowIds& rows) {
    if (!reads_in_place()) return gather_and_copy(rows, out, stream);
    tensor_.gather(rows, tensor::RowsOut{.data = out, .dtype = tensor_.spec().dtype}, stream, pool_);
  });
}

void UnifiedTensor::scatter(const Ids& ids, const void* in, const cuda::Stream& stream, bool checks) {
  run(ids, stream, checks, [&](const tensor::RowIds& rows) {
    if (reads_in_place()) return tensor_.scatter(rows, tensor::RowsIn{.data = in}, stream, pool_);
    std::vector<std::byte> copy(at(ids.count) * tensor_.spec().row_bytes());
    cuda::copy_async(copy.data(), in, copy.size(), stream);
    stream.synchronize();
    tensor_.scatter(rows, tensor::RowsIn{.data = copy.data()}, {}, pool_);
  });
}

void UnifiedTensor::fence(const cuda::Stream& stream) const { stream.synchronize(); }

}  // namespace strata::batches
