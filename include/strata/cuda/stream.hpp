// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <utility>

#include "strata/cuda/sm_group.hpp"
#include "strata/util/types.hpp"

namespace strata::cuda {

/// Priority of a Stream whose kernels go before those of other streams; CUDA clamps it to the GPU's range.
inline constexpr int kHighestPriority = -64;

}  // namespace strata::cuda

struct CUstream_st;  // what cudaStream_t and cudaEvent_t point to, so that headers need no CUDA toolkit
struct CUevent_st;

namespace strata::cuda {

class Event;

/// A non-blocking stream, an owner. A default-constructed stream belongs to the cpu: all its calls return at
/// once, so that code needs no second path to hand work over.
///
///     cuda::Event gathered(device);          // `train` waits for the work that `gather` has so far
///     gathered.record(gather);
///     train.wait(gathered);
class Stream {
 public:
  Stream() = default;
  explicit Stream(Device device, int priority = 0, const SmGroup& sms = {});
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();
  /// Wraps a stream of somebody else (libtorch's; null: the default one of `device`); never destroys it.
  static Stream borrow(Device device, CUstream_st* handle);

  Device device() const { return device_; }
  const SmGroup& sms() const { return sms_; }  ///< all SMs if the stream is borrowed
  CUstream_st* get() const { return handle_; }
  /// Moves this stream to the SMs of `stream`; later work waits for earlier work. Returns whether it was on
  /// other SMs; graphs that were recorded with it still run there. REQUIRES: the stream is not being
  /// recorded.
  bool follow(const Stream& stream);
  void synchronize() const;             ///< throws CudaError, also for earlier asynchronous work
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
  bool is_complete() const;  ///< what was recorded; throws CudaError, also for earlier asynchronous work
  float elapsed_ms(const Event& earlier) const;  ///< REQUIRES: both were made with timing and are complete
  CUevent_st* get() const { return handle_; }

 private:
  CUevent_st* handle_ = nullptr;
};

}  // namespace strata::cuda

struct CUgraphExec_st;

namespace strata::cuda {

/// The work that a function enqueued on a stream; one call replays it. An owner.
///
///     cuda::Graph step = cuda::Graph::record(stream, [&] { forward(stream); backward(stream); });
///     for (...) step.launch(stream);
class Graph {
 public:
  Graph() = default;
  /// Records what `enqueue` does with `stream`, and with other streams that wait for `stream` and that
  /// `stream` waits for afterwards. Nothing runs yet. `enqueue` must neither synchronise nor allocate. Until
  /// it returns, no thread can synchronise the device. REQUIRES: can_record(stream).
  static Graph record(const Stream& stream, const std::function<void()>& enqueue);
  /// Whether a stream can be recorded: not CUDA's default stream, which Python's libraries use by default.
  static bool can_record(const Stream& stream) { return stream.get() != nullptr; }
  Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  explicit operator bool() const { return handle_ != nullptr; }
  void launch(const Stream& stream) const;

 private:
  CUgraphExec_st* handle_ = nullptr;
};

/// An NVTX range around a scope; nothing without CUDA.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace strata::cuda
