// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <utility>

#include "strata/cuda/stream.hpp"

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
  /// `stream` waits for afterwards. Nothing runs yet. `enqueue` must neither synchronise nor allocate. Other
  /// threads are not affected. REQUIRES: can_record(stream).
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

}  // namespace strata::cuda
