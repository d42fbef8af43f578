#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "strata/cuda/sm_group.hpp"
#include "strata/util/types.hpp"

struct CUstream_st;  // what cudaStream_t and cudaEvent_t point to; headers stay free of the CUDA toolkit
struct CUevent_st;
struct CUgraphExec_st;

/// Owners of CUDA handles. In a build without CUDA, or for the device cpu, streams and events do nothing and
/// only host memory can be had; so code above needs no second path for hand-over and memory.
namespace strata::cuda {

int device_count();                   ///< 0 without CUDA, without a driver or without a GPU
std::string device_name(int device);  ///< "NVIDIA H200"
std::string device_uuid(int device);  ///< names the physical GPU across processes
struct MemoryInfo {
  std::int64_t free_bytes, total_bytes;
};
MemoryInfo device_memory(int device);
int num_multiprocessors(int device);

/// Makes `device` current for this thread while it lives. Does nothing for the cpu.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;
};

class Event;

/// A non-blocking stream, an owner. The default-constructed one belongs to the cpu: all its calls return at
/// once.
class Stream {
 public:
  Stream() = default;
  explicit Stream(Device device, int priority = 0, const SmGroup& sms = {});
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();
  /// Wraps a stream of somebody else (libtorch's); never destroys it.
  static Stream borrow(Device device, CUstream_st* handle);

  Device device() const { return device_; }
  const SmGroup& sms() const { return sms_; }  ///< all where it is borrowed
  CUstream_st* get() const { return handle_; }
  /// Moves to the SMs of `stream`: later work waits for earlier. REQUIRES: nothing records it. Returns
  /// whether it was elsewhere; graphs that were recorded with it still run there.
  bool follow(const Stream& stream);
  void synchronize() const;             ///< throws CudaError, also for errors of earlier asynchronous work
  void wait(const Event& event) const;  ///< later work of this stream waits for the event

 private:
  Device device_;
  SmGroup sms_;  // outlives the handle
  CUstream_st* handle_ = nullptr;
  int priority_ = 0;
  bool owned_ = true;
};

/// Marks a point of a stream; an owner.
class Event {
 public:
  Event() = default;
  explicit Event(Device device, bool timing = false);
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();
  void record(const Stream& stream);
  void synchronize() const;
  float elapsed_ms(const Event& earlier) const;  ///< both made with timing and completed
  CUevent_st* get() const { return handle_; }

 private:
  CUevent_st* handle_ = nullptr;
};

/// What a function enqueued on a stream, to be replayed by one call; an owner.
class Graph {
 public:
  Graph() = default;
  /// Records what `enqueue` does with `stream`, and with streams that wait for it and that it waits for
  /// again; nothing of it runs yet. `enqueue` must neither synchronise nor allocate. Other threads are not
  /// affected.
  static Graph record(const Stream& stream, const std::function<void()>& enqueue);
  Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  explicit operator bool() const { return handle_ != nullptr; }
  void launch(const Stream& stream) const;

 private:
  CUgraphExec_st* handle_ = nullptr;
};

enum class Memory : std::uint8_t {
  host,    ///< ordinary, 64-byte aligned
  pinned,  ///< host memory the GPU reads and copies asynchronously; ordinary where there is no CUDA
  device,  ///< of the current device
};

/// Bytes of one kind of memory. An owner; contents are undefined. Throws OutOfMemory naming `what`, wanted
/// and free bytes.
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

/// A typed Buffer that only grows when asked for more than it holds.
template <typename T>
class Array {
 public:
  Array() = default;
  Array(Memory memory, Count size, const std::string& what, Device device = {})
      : buffer_(memory, static_cast<std::size_t>(size) * sizeof(T), what, device), size_(size) {}

  T* data() const { return static_cast<T*>(buffer_.data()); }
  Count size() const { return size_; }
  std::span<T> span() const { return {data(), static_cast<std::size_t>(size_)}; }
  T& operator[](Count i) const { return data()[i]; }  ///< host and pinned memory only

 private:
  Buffer buffer_;
  Count size_ = 0;
};

/// Memory for results that live on `device`: device memory on a GPU, host memory on the cpu.
inline Memory memory_on(Device device) { return device.is_cuda() ? Memory::device : Memory::host; }

/// Whether `data` points into the memory of a GPU.
bool is_device_memory(const void* data);

/// Asynchronous copy in any direction between host, registered, pinned and device memory; an ordinary memcpy
/// for the cpu's stream. Cut where registered blocks end, which CUDA refuses to cross: every copy between a
/// GPU and host memory goes through this function or the next.
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
void fill_async(void* to, int byte, std::size_t bytes, const Stream& stream);

/// Registers host memory with CUDA so that kernels read it in place; an owner of the registration, not of the
/// memory. Works in blocks of at most 64 GiB, which end where addresses are multiples of it. Does nothing
/// without a GPU. Throws CudaError with the remedy (memlock limit).
class Registration {
 public:
  Registration() = default;
  Registration(void* data, std::size_t bytes);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// An NVTX range around a scope; nothing without CUDA.
class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace strata::cuda
