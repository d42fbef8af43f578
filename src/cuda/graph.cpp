// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::cuda {

Graph Graph::record(const Stream& stream, const std::function<void()>& enqueue) {
  const DeviceGuard guard(stream.device());
  backend::begin_recording(stream.get());
  try {
    enqueue();
  } catch (...) {
    backend::discard_recording(stream.get());
    throw;
  }
  Graph graph;
  graph.handle_ = backend::end_recording(stream.get());
  return graph;
}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::~Graph() {
  if (handle_ != nullptr) backend::destroy_graph(handle_);
}

void Graph::launch(const Stream& stream) const { backend::launch(handle_, stream.get()); }

}  // namespace strata::cuda
