// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backend.hpp"
#include "default_stream.hpp"
#include "registered_blocks.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::cuda {

void copy_async(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (!stream.device().is_cuda()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const DeviceGuard guard(device_to_call_with(stream));
  for_each_piece(to, from, bytes, registration_block(), [&](std::size_t offset, std::size_t size) {
    backend::copy(static_cast<std::byte*>(to) + offset, static_cast<const std::byte*>(from) + offset, size,
                  stream.get());
  });
}

namespace {

RowsCopy part_of(const RowsCopy& copy, std::size_t first, std::size_t rows) {
  RowsCopy part = copy;
  for (PitchedRows* side : {&part.to, &part.from}) side->data += first * side->pitch;
  part.rows = rows;
  return part;
}

bool crosses_any_end(const RowsCopy& copy) {
  const auto crosses = [&](const PitchedRows& side) {
    return crosses_end(side.data, (copy.rows - 1) * side.pitch + copy.row_bytes, registration_block());
  };
  return crosses(copy.to) || crosses(copy.from);
}

}  // namespace

void copy_rows_async(const RowsCopy& copy, const Stream& stream) {
  if (copy.rows == 0 || copy.row_bytes == 0) return;
  const bool dense = copy.to.pitch == copy.row_bytes && copy.from.pitch == copy.row_bytes;
  if (dense || copy.rows == 1)
    return copy_async(copy.to.data, copy.from.data, copy.rows * copy.row_bytes, stream);
  if (stream.device().is_cuda() && !crosses_any_end(copy)) {
    const DeviceGuard guard(device_to_call_with(stream));
    return backend::copy_rows(copy, stream.get());
  }
  const std::size_t half = copy.rows / 2;
  copy_rows_async(part_of(copy, 0, half), stream);
  copy_rows_async(part_of(copy, half, copy.rows - half), stream);
}

void fill_async(void* to, int byte, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device().is_cuda()) {
    const DeviceGuard guard(device_to_call_with(stream));
    backend::fill(to, byte, bytes, stream.get());
  } else {
    std::memset(to, byte, bytes);
  }
}

}  // namespace strata::cuda
