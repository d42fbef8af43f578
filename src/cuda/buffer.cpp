// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/buffer.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "backend.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::cuda {

namespace {

[[noreturn]] void out_of_memory(Memory memory, std::size_t bytes, const std::string& what, Device device) {
  const bool on_device = memory == Memory::device;
  const std::int64_t free = on_device ? device_memory(device.index).free_bytes : available_host_bytes();
  throw OutOfMemory(
      fmt::format("no room for {} in {} memory: wanted {}, free {}", what, on_device ? device.str() : "host",
                  format_bytes(static_cast<std::int64_t>(bytes)), format_bytes(free)),
      on_device ? "Lower --gpu-memory, --batch-size or --fanouts, or use more GPUs."
                : "Lower --batch-size or --fanouts, or use more machines.");
}

void* allocate(Memory memory, std::size_t bytes, Device device) {
  switch (memory) {
    case Memory::device: {
      const DeviceGuard guard(device);
      return backend::allocate_device(bytes);
    }
    case Memory::pinned:
      return backend::allocate_pinned(bytes);
    case Memory::host:
      break;
  }
  constexpr std::size_t kAlignment = 64;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

Buffer::Buffer(Memory memory, std::size_t bytes, const std::string& what, Device device)
    : bytes_(bytes),
      memory_(memory == Memory::pinned && device_count() == 0 ? Memory::host : memory),
      device_(device) {
  if (bytes == 0) return;
  data_ = allocate(memory_, bytes, device);
  if (data_ == nullptr) out_of_memory(memory_, bytes, what, device);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      memory_(other.memory_),
      device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(memory_, other.memory_);
  std::swap(device_, other.device_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  switch (memory_) {
    case Memory::device:
      backend::free_device(data_);
      break;
    case Memory::pinned:
      backend::free_pinned(data_);
      break;
    case Memory::host:
      std::free(data_);
      break;
  }
}

bool is_device_memory(const void* data) {
  return data != nullptr && device_count() > 0 && backend::is_device_memory(data);
}

}  // namespace strata::cuda
