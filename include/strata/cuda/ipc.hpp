// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <utility>

#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

/// Memory and events of a GPU that several processes of a host use. A handle is text of kIpcHandleBytes that
/// another process opens, even one that does not see the GPU. A process must close what it opened before the
/// owner ends the original. Every call throws CudaError.
namespace strata::cuda {

constexpr std::size_t kIpcHandleBytes = 64;
/// Memory is shared in whole granules. An allocation of a multiple shares them with no other.
constexpr std::size_t kIpcGranule = std::size_t{2} << 20;

/// Whether STRATA_PEER_ACCESS=off is in the environment: no process then opens another's memory.
bool peer_access_is_off();

/// The handle of memory that cuda::Buffer allocated.
std::string ipc_handle(const void* data);

/// Memory of another process; an owner of the mapping.
class MappedMemory {
 public:
  MappedMemory() = default;
  /// Maps memory for use by `device`, which must reach the GPU that the memory lies on.
  MappedMemory(Device device, const std::string& handle);
  MappedMemory(MappedMemory&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~MappedMemory();
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  Device device_;
  void* data_ = nullptr;
};

/// An event that several processes have; an owner of this one's part. Default-constructed, it is none.
class IpcEvent {
 public:
  IpcEvent() = default;
  explicit IpcEvent(Device device);                    ///< a new one
  IpcEvent(Device device, const std::string& handle);  ///< another process's
  IpcEvent(IpcEvent&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  IpcEvent& operator=(IpcEvent&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~IpcEvent();

  explicit operator bool() const { return handle_ != nullptr; }
  std::string handle() const;  ///< of an event that this process made
  void record(const Stream& stream);
  void make_wait(const Stream& stream) const;  ///< for what was recorded last, in any process
  bool is_complete() const;

 private:
  Device device_;
  CUevent_st* handle_ = nullptr;
};

}  // namespace strata::cuda
