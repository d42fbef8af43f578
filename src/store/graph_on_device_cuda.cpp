// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <vector>

#include "cache/adjacency_cache.hpp"
#include "graph_on_device.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/tensor/array_copies.hpp"

namespace strata::store {
namespace {

/// Whether every GPU gets all of the tensor.
bool is_whole(const tensor::Placement& placement) {
  return !placement.segments.empty() && std::ranges::all_of(placement.segments, [](const tensor::Segment& s) {
    return s[tensor::Stratum::replicated] == s.rows();
  });
}

/// Whether GPUs get some of the tensor, but not all.
bool is_divided(const tensor::Placement& placement) {
  return !is_whole(placement) &&
         std::ranges::any_of(placement.segments, [](const tensor::Segment& s) { return s.on_gpus() > 0; });
}

}  // namespace

struct GraphOnDevice::Copies {
  std::vector<cuda::Buffer> whole;
  std::optional<tensor::ArrayCopies> indptr;
  std::optional<AdjacencyCache> lists;

  const void* copy(const void* data, std::size_t bytes, plan::GraphTensor tensor, const cuda::Stream& stream);
  template <typename T>
  const T* copy_if(bool wanted, const T* data, Count size, plan::GraphTensor tensor,
                   const cuda::Stream& stream) {
    if (!wanted || data == nullptr) return data;
    return static_cast<const T*>(copy(data, at(size) * sizeof(T), tensor, stream));
  }
  IdSpan copy_if(bool wanted, IdSpan ids, plan::GraphTensor tensor, const cuda::Stream& stream) {
    ids.visit([&](const auto* typed) { ids.data = copy_if(wanted, typed, ids.size, tensor, stream); });
    return ids;
  }
  void copy_whole(const GraphView& host, const plan::GraphPlacement& placement, GraphView& view);
  void copy_sublists(bool wanted, const GraphView& host, SublistsView& view, const cuda::Stream& stream);
  void divide_lists(const comm::Machine& machine, const GraphView& host, plan::GraphPlacement& placement,
                    GraphView& view);
};

const void* GraphOnDevice::Copies::copy(const void* data, std::size_t bytes, plan::GraphTensor tensor,
                                        const cuda::Stream& stream) {
  whole.emplace_back(cuda::Memory::device, bytes, name_of(tensor), stream.device());
  cuda::copy_async(whole.back().data(), data, bytes, stream);
  return whole.back().data();
}

void GraphOnDevice::Copies::copy_whole(const GraphView& host, const plan::GraphPlacement& placement,
                                       GraphView& view) {
  const cuda::Stream stream(view.device);
  const bool lists_whole = is_whole(placement.indices);
  view.original_ids =
      copy_if(placement.original_ids, host.original_ids, plan::GraphTensor::original_ids, stream);
  view.in_degrees =
      copy_if(placement.in_degrees, host.in_degrees, host.num_nodes, plan::GraphTensor::in_degrees, stream);
  view.indptr =
      copy_if(is_whole(placement.indptr), host.indptr, host.num_local + 1, plan::GraphTensor::indptr, stream);
  view.indices = copy_if(lists_whole, host.indices, plan::GraphTensor::indices, stream);
  view.edge_ids = copy_if(lists_whole, host.edge_ids, plan::GraphTensor::edge_ids, stream);
  view.weights = copy_if(lists_whole, host.weights, host.indices.size, plan::GraphTensor::weights, stream);
  copy_sublists(lists_whole, host, view.sublists, stream);
  stream.synchronize();
}

void GraphOnDevice::Copies::copy_sublists(bool wanted, const GraphView& host, SublistsView& view,
                                          const cuda::Stream& stream) {
  constexpr auto kTensor = plan::GraphTensor::indptr;
  view.first = copy_if(wanted, view.first, host.num_local + 1, kTensor, stream);
  view.begins = copy_if(wanted, view.begins, view.count + 1, kTensor, stream);
  view.nodes = copy_if(wanted, view.nodes, view.count, kTensor, stream);
  view.relations = copy_if(wanted, view.relations, view.count, kTensor, stream);
}

void GraphOnDevice::Copies::divide_lists(const comm::Machine& machine, const GraphView& host,
                                         plan::GraphPlacement& placement, GraphView& view) {
  HostLists arrays{.indptr = host.indptr, .indptr_for_gpu = view.indptr, .arrays = {}};
  std::vector<CachedEntries*> views;
  const auto add = [&](plan::GraphTensor tensor, const void* data, DType dtype, CachedEntries& copies) {
    arrays.arrays.push_back({name_of(tensor), data, dtype});
    views.push_back(&copies);
  };
  const auto type_of = [](const IdSpan& ids) { return ids.wide ? DType::i64 : DType::i32; };
  add(plan::GraphTensor::indices, host.indices.data, type_of(host.indices), view.copies.indices);
  if (host.weights != nullptr) add(plan::GraphTensor::weights, host.weights, DType::f32, view.copies.weights);
  if (host.edge_ids.size > 0)
    add(plan::GraphTensor::edge_ids, host.edge_ids.data, type_of(host.edge_ids), view.copies.edge_ids);
  lists.emplace(machine, arrays, placement.lists, placement.indices);
  placement.indices = lists->placement();
  view.copies.lists = lists->lists();
  for (std::size_t i = 0; i < views.size(); ++i) *views[i] = lists->entries(i);
}

GraphOnDevice::GraphOnDevice() = default;
GraphOnDevice::GraphOnDevice(GraphOnDevice&&) noexcept = default;
GraphOnDevice& GraphOnDevice::operator=(GraphOnDevice&&) noexcept = default;
GraphOnDevice::~GraphOnDevice() = default;

GraphOnDevice::GraphOnDevice(const comm::Machine& machine, const GraphView& host,
                             plan::GraphPlacement& placement)
    : view_(host) {
  view_.device = machine.device();
  if (placement.limits.num_gpus == 0) return;  // a rank computes on the cpu
  copies_ = std::make_unique<Copies>();
  machine.together([&] { copies_->copy_whole(host, placement, view_); });
  if (is_divided(placement.indptr)) {
    const tensor::TensorSpec spec{
        .name = name_of(plan::GraphTensor::indptr), .rows = host.num_local + 1, .dtype = DType::i64};
    copies_->indptr.emplace(machine, spec, placement.indptr);
    copies_->indptr->fill(machine, host.indptr);
    placement.indptr = copies_->indptr->placement();
    view_.copies.indptr = copies_->indptr->strata();
  }
  if (is_divided(placement.indices)) copies_->divide_lists(machine, host, placement, view_);
}

void GraphOnDevice::close(const comm::Machine& machine) {
  if (!copies_) return;
  if (copies_->indptr) copies_->indptr->close(machine);
  if (copies_->lists) copies_->lists->close(machine);
  copies_.reset();
}

}  // namespace strata::store
