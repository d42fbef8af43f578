// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::cuda {

enum class Memory : std::uint8_t {
  host,    ///< ordinary, 64-byte aligned
  pinned,  ///< host memory that the GPU reads and copies asynchronously; ordinary memory without CUDA
  device,  ///< of the GPU that the buffer is made for
};

/// Bytes of one kind of memory; their contents are undefined at first. An owner. Throws OutOfMemory naming
/// `what`, the bytes wanted and the bytes free.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Memory memory, std::size_t bytes, const std::string& what, Device device = {});
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Memory memory() const { return memory_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Memory memory_ = Memory::host;
  Device device_;
};

/// A typed Buffer.
///
///     const cuda::Array<NodeId> seeds(cuda::memory_on(device), 1024, "seeds", device);
template <typename T>
class Array {
 public:
  Array() = default;
  Array(Memory memory, Count size, const std::string& what, Device device = {})
      : buffer_(memory, at(size) * sizeof(T), what, device), size_(size) {}

  /// Makes room for `size` elements, whose contents are undefined if there was too little. Grows by at least
  /// a quarter, so that sizes that creep up seldom allocate; frees before it allocates. Returns data().
  T* reserve(Memory memory, Count size, const std::string& what, Device device = {}) {
    if (size > size_) {
      const Count grown = std::max(size, size_ + size_ / 4);
      *this = Array();
      *this = Array(memory, grown, what, device);
    }
    return data();
  }

  T* data() const { return static_cast<T*>(buffer_.data()); }
  Count size() const { return size_; }
  std::span<T> span() const { return {data(), at(size_)}; }
  T& operator[](Count i) const { return data()[i]; }  ///< host and pinned memory only

 private:
  Buffer buffer_;
  Count size_ = 0;
};

/// Memory for results that live on `device`: device memory on a GPU, host memory on the cpu.
inline Memory memory_on(Device device) { return device.is_cuda() ? Memory::device : Memory::host; }

/// Whether `data` points into the memory of a GPU.
bool is_device_memory(const void* data);

/// Copies asynchronously in any direction between host, registered, pinned and device memory; on the cpu's
/// stream it is an ordinary memcpy. CUDA refuses copies across the end of a registered block, so they are cut
/// there: every copy between a GPU and host memory must go through this function or copy_rows_async().
void copy_async(void* to, const void* from, std::size_t bytes, const Stream& stream);

/// Rows that begin `pitch` bytes apart. A view.
struct PitchedRows {
  std::byte* data = nullptr;
  std::size_t pitch = 0;
};
struct RowsCopy {
  PitchedRows to, from;       ///< `from` is only read
  std::size_t row_bytes = 0;  ///< at most either pitch
  std::size_t rows = 0;
};
void copy_rows_async(const RowsCopy& copy, const Stream& stream);  ///< like copy_async
/// Sets bytes of memory of the stream's device, or of pinned memory. Asynchronous, like copy_async.
void fill_async(void* to, int byte, std::size_t bytes, const Stream& stream);

}  // namespace strata::cuda
