// SPDX-License-Identifier: Apache-2.0
#include "operators/sampling.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <utility>

#include "operators/arguments.hpp"
#include "strata/cuda/device.hpp"
#include "strata/sampling/one_hop.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

using sampling::PiecedArray;

/// A new key per call; torch.manual_seed() determines them.
std::uint64_t next_key() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

/// The threads that sample; a group has its own.
ThreadPool& own_pool() {
  static auto& pool = *new ThreadPool;
  return pool;
}

PiecedArray array_of(const at::Tensor& tensor, const at::Device& device, const char* name) {
  if (tensor.dim() != 1 || !tensor.is_contiguous() || tensor.device() != device) {
    throw InputError(fmt::format("{} has {} dimensions on {}; wanted is one row on {}", name, tensor.dim(),
                                 tensor.device().str(), device.str()),
                     "Give contiguous tensors on one device.");
  }
  return PiecedArray::of(tensor.const_data_ptr(), tensor.numel(), dtype_of(tensor.scalar_type()));
}

PiecedArray array_of(const TorchChunkTensor& tensor, const char* name) {
  if (tensor.rows().spec().cols != 1)
    throw InputError(fmt::format("{} has {} columns", name, tensor.rows().spec().cols),
                     "Give a ChunkTensor of one dimension.");
  return tensor.rows().pieces();
}

/// The arrays of a graph, and the device and the threads that read them.
struct Source {
  sampling::HopArrays arrays;
  at::ScalarType id_type;  ///< of the indices
  Device device;
  ThreadPool& pool;
};

/// A hop, with its resources until its edges are chosen.
class Hop {
 public:
  Hop(const SampleArguments& arguments, const Source& source)
      : guard_(source.device),
        seeds_(ids_on(arguments.seeds, source.device, "seeds")),
        id_type_(source.id_type),
        memory_(source.device),
        hop_(sampling::make_hop(source.arrays, span_of(seeds_), rule_of(arguments),
                                {.stream = current_stream(source.device),
                                 .allocate = memory_.allocator(),
                                 .pool = &source.pool})) {}

  Edges edges() {
    at::Tensor rows = at::empty({hop_->num_edges()}, seeds_.options());
    return {rows, choose({.seeds = rows.mutable_data_ptr()}, hop_->num_edges())};
  }

  NeighborLists lists(ListEnd end) {
    const bool and_seeds = end == ListEnd::seed;
    const Count size = hop_->num_edges() + (and_seeds ? seeds_.numel() : 0);
    at::Tensor starts = at::empty({seeds_.numel() + 1}, seeds_.options().dtype(at::kLong));
    hop_->starts(starts.mutable_data_ptr<std::int64_t>());
    return {.starts = starts, .neighbors = choose({.and_seeds = and_seeds}, size)};
  }

 private:
  static sampling::HopRule rule_of(const SampleArguments& arguments) {
    return {.fanout = arguments.num_picks,
            .replacement = arguments.replace ? sampling::Replacement::with : sampling::Replacement::without,
            .key = next_key()};
  }

  at::Tensor choose(sampling::HopEdges out, Count size) {
    at::Tensor cols = at::empty({size}, seeds_.options().dtype(id_type_));
    out.neighbors = cols.mutable_data_ptr();
    hop_->choose(out);
    return cols;
  }

  cuda::DeviceGuard guard_;
  at::Tensor seeds_;
  at::ScalarType id_type_;
  Memory memory_;
  std::unique_ptr<sampling::OneHop> hop_;
};

Source source_of(const ChunkedGraph& graph) {
  sampling::HopArrays arrays{.indptr = array_of(graph.indptr, "indptr"),
                             .indices = array_of(graph.indices, "indices"),
                             .weights = {}};
  if (graph.probs != nullptr) arrays.weights = array_of(*graph.probs, "probs");
  return {.arrays = arrays,
          .id_type = graph.indices.dtype(),
          .device = graph.indptr.rows().device(),
          .pool = graph.indptr.group().pool()};
}

}  // namespace

Edges sample(const SampleArguments& arguments, const at::Tensor& indptr, const at::Tensor& indices,
             const at::Tensor& probs) {
  const at::Device where = indptr.device();
  sampling::HopArrays arrays{.indptr = array_of(indptr, where, "indptr"),
                             .indices = array_of(indices, where, "indices"),
                             .weights = {}};
  if (probs.defined()) arrays.weights = array_of(probs, where, "probs");
  return Hop(arguments, {.arrays = arrays,
                         .id_type = indices.scalar_type(),
                         .device = device_of(where),
                         .pool = own_pool()})
      .edges();
}

Edges sample(const SampleArguments& arguments, const ChunkedGraph& graph) {
  return Hop(arguments, source_of(graph)).edges();
}

NeighborLists sample_lists(const SampleArguments& arguments, const ChunkedGraph& graph, ListEnd end) {
  return Hop(arguments, source_of(graph)).lists(end);
}

}  // namespace strata::dgs
