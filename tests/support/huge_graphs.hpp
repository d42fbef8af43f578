// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::test {

/// An array of which element i is pattern[i mod its size, a power of two], on a device. On the cpu a few
/// megabytes of memory stand for all of it. An owner.
class Repeated {
 public:
  template <typename T>
  Repeated(const std::vector<T>& pattern, Count size, Device device)
      : Repeated(pattern.data(), pattern.size() * sizeof(T), at(size) * sizeof(T), device) {}
  ~Repeated();
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(device_.is_cuda() ? buffer_.data() : data_);
  }

 private:
  Repeated(const void* pattern, std::size_t pattern_bytes, std::size_t bytes, Device device);

  Device device_;
  void* data_ = nullptr;
  std::size_t mapped_ = 0;
  cuda::Buffer buffer_;
};

/// Some hundred nodes, one of which has a hundred million edges, that no memory of a host holds: position p
/// of the array of all lists has neighbor neighbor_at(p), weight weight_at(p) and edge id p mod kPattern.
class HugeHub {
 public:
  explicit HugeHub(Device device);
  const store::GraphView& view() const { return view_; }

  static constexpr Count kNodes = 500, kHubDegree = 100'000'000;
  static constexpr NodeId kHub = 250;
  static constexpr Count kPattern = Count{1} << 20;
  static NodeId neighbor_at(Count position);
  static float weight_at(Count position);
  static Count begin_of(NodeId node);
  static Count degree_of(NodeId node) { return begin_of(node + 1) - begin_of(node); }

 private:
  std::unique_ptr<Repeated> indices_, edge_ids_, weights_;
  cuda::Array<Count> indptr_;
  cuda::Array<std::int32_t> original_ids_;
  store::GraphView view_;
};

/// A random graph of few nodes with lists, whose ids begin at `shift`, the last of all; every original id is
/// 0, so that another shift changes nothing else.
class ShiftedGraph {
 public:
  ShiftedGraph(NodeId shift, Device device);
  const store::GraphView& view() const { return view_; }

  static constexpr Count kNodes = 700;

 private:
  std::unique_ptr<Repeated> original_ids_;
  cuda::Array<Count> indptr_;
  cuda::Array<std::int64_t> indices_, edge_ids_;
  cuda::Array<float> weights_;
  store::GraphView view_;
};

}  // namespace strata::test
