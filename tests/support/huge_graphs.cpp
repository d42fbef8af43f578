// SPDX-License-Identifier: Apache-2.0
#include "support/huge_graphs.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/random.hpp"

namespace strata::test {
namespace {

template <typename T>
cuda::Array<T> on_device(const std::vector<T>& values, Device device) {
  cuda::Array<T> array(cuda::memory_on(device), std::max<Count>(1, std::ssize(values)), "test graph", device);
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  cuda::copy_async(array.data(), values.data(), values.size() * sizeof(T), stream);
  stream.synchronize();
  return array;
}

void require(bool fine, const char* what) {
  if (!fine) throw std::runtime_error(what);
}

std::uint64_t random_at(Count index) { return mix64(static_cast<std::uint64_t>(index) + 12345); }

}  // namespace

Repeated::Repeated(const void* pattern, std::size_t pattern_bytes, std::size_t bytes, Device device)
    : device_(device) {
  if (device.is_cuda()) {
    buffer_ = cuda::Buffer(cuda::Memory::device, bytes, "test graph", device);
    const cuda::Stream stream(device);
    for (std::size_t at = 0; at < bytes; at += pattern_bytes)
      cuda::copy_async(static_cast<std::byte*>(buffer_.data()) + at, pattern,
                       std::min(pattern_bytes, bytes - at), stream);
    stream.synchronize();
    return;
  }
  const std::size_t count = (bytes + pattern_bytes - 1) / pattern_bytes;
  mapped_ = count * pattern_bytes;
  data_ = mmap(nullptr, mapped_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(data_ != MAP_FAILED, "mmap");
  const int file = memfd_create("pattern", MFD_CLOEXEC);
  require(file >= 0 && write(file, pattern, pattern_bytes) == static_cast<ssize_t>(pattern_bytes), "memfd");
  for (std::size_t i = 0; i < count; ++i) {
    void* place = static_cast<std::byte*>(data_) + i * pattern_bytes;
    require(mmap(place, pattern_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == place, "mmap");
  }
  close(file);
}

Repeated::~Repeated() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

NodeId HugeHub::neighbor_at(Count position) {
  return static_cast<NodeId>(random_at(position % kPattern) % static_cast<std::uint64_t>(kNodes));
}

float HugeHub::weight_at(Count position) {
  const std::uint64_t random = random_at(position % kPattern + kPattern);
  return random % 5 == 0 ? 0.0f : static_cast<float>(1 + random % 1000) / 64;
}

Count HugeHub::begin_of(NodeId node) {
  const Count before = std::min<NodeId>(node, kHub), after = std::max<NodeId>(0, node - kHub - 1);
  return before * 7 + (node > kHub ? kHubDegree : 0) + after * 40;
}

HugeHub::HugeHub(Device device) {
  std::vector<std::int32_t> neighbors;
  std::vector<EdgeId> edge_ids;
  std::vector<float> weights;
  for (Count p = 0; p < kPattern; ++p) {
    neighbors.push_back(static_cast<std::int32_t>(neighbor_at(p)));
    edge_ids.push_back(p);
    weights.push_back(weight_at(p));
  }
  std::vector<Count> indptr;
  std::vector<std::int32_t> original_ids;
  for (NodeId v = 0; v <= kNodes; ++v) indptr.push_back(begin_of(v));
  for (NodeId v = 0; v < kNodes; ++v) original_ids.push_back(static_cast<std::int32_t>(kNodes - 1 - v));
  const Count num_edges = indptr.back();
  indices_ = std::make_unique<Repeated>(neighbors, num_edges, device);
  edge_ids_ = std::make_unique<Repeated>(edge_ids, num_edges, device);
  weights_ = std::make_unique<Repeated>(weights, num_edges, device);
  indptr_ = on_device(indptr, device);
  original_ids_ = on_device(original_ids, device);
  view_ = {{.device = device,
            .num_nodes = kNodes,
            .first_node = 0,
            .num_local = kNodes,
            .original_ids = {original_ids_.data(), kNodes, false}},
           {.indptr = indptr_.data(),
            .indices = {indices_->as<std::int32_t>(), num_edges, false},
            .edge_ids = {edge_ids_->as<EdgeId>(), num_edges, true},
            .weights = weights_->as<float>()}};
}

ShiftedGraph::ShiftedGraph(NodeId shift, Device device) {
  std::vector<Count> indptr{0};
  std::vector<std::int64_t> indices, edge_ids;
  std::vector<float> weights;
  for (NodeId v = 0; v < kNodes; ++v) {
    const auto degree = static_cast<Count>(v == 3 ? 3000 : random_at(v) % 30);
    for (Count j = 0; j < degree; ++j) {
      const std::uint64_t random = random_at(v * 10000 + j);
      indices.push_back(shift + static_cast<NodeId>(random % kNodes));
      edge_ids.push_back(std::ssize(edge_ids));
      weights.push_back(static_cast<float>(random >> 40));
    }
    indptr.push_back(std::ssize(indices));
  }
  const Count num_nodes = shift + kNodes, num_edges = std::ssize(indices);
  original_ids_ =
      std::make_unique<Repeated>(std::vector<std::int64_t>(std::size_t{1} << 20), num_nodes, device);
  indptr_ = on_device(indptr, device);
  indices_ = on_device(indices, device);
  edge_ids_ = on_device(edge_ids, device);
  weights_ = on_device(weights, device);
  view_ = {{.device = device,
            .num_nodes = num_nodes,
            .first_node = shift,
            .num_local = kNodes,
            .original_ids = {original_ids_->as<std::int64_t>(), num_nodes, true}},
           {.indptr = indptr_.data(),
            .indices = {indices_.data(), num_edges, true},
            .edge_ids = {edge_ids_.data(), num_edges, true},
            .weights = weights_.data()}};
}

}  // namespace strata::test
