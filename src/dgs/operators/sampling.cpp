// SPDX-License-Identifier: Apache-2.0
#include "operators/sampling.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "operators/arguments.hpp"
#include "strata/cuda/device.hpp"
#include "strata/sampling/one_hop.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

using sampling::PiecedArray;

/// A new one per call; torch.manual_seed() steers them.
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

Edges run(const SampleArguments& arguments, const sampling::HopArrays& arrays, at::ScalarType id_type,
          Device device, ThreadPool& pool) {
  const cuda::DeviceGuard guard(device);
  const at::Tensor seeds = ids_on(arguments.seeds, device, "seeds");
  Memory memory(device);
  sampling::HopPlace place{.stream = current_stream(device), .allocate = memory.allocator(), .pool = &pool};
  const sampling::HopRule rule{
      .fanout = arguments.num_picks,
      .replacement = arguments.replace ? sampling::Replacement::with : sampling::Replacement::without,
      .key = next_key()};
  const auto hop = sampling::make_hop(arrays, span_of(seeds), rule, std::move(place));
  at::Tensor rows = at::empty({hop->num_edges()}, seeds.options());
  at::Tensor cols = at::empty({hop->num_edges()}, seeds.options().dtype(id_type));
  hop->choose({.seeds = rows.mutable_data_ptr(), .neighbors = cols.mutable_data_ptr()});
  return {rows, cols};
}

}  // namespace

Edges sample(const SampleArguments& arguments, const at::Tensor& indptr, const at::Tensor& indices,
             const at::Tensor& probs) {
  const at::Device where = indptr.device();
  sampling::HopArrays arrays{.indptr = array_of(indptr, where, "indptr"),
                             .indices = array_of(indices, where, "indices"),
                             .weights = {}};
  if (probs.defined()) arrays.weights = array_of(probs, where, "probs");
  return run(arguments, arrays, indices.scalar_type(), device_of(where), own_pool());
}

Edges sample(const SampleArguments& arguments, const TorchChunkTensor& indptr,
             const TorchChunkTensor& indices, const TorchChunkTensor* probs) {
  sampling::HopArrays arrays{
      .indptr = array_of(indptr, "indptr"), .indices = array_of(indices, "indices"), .weights = {}};
  if (probs != nullptr) arrays.weights = array_of(*probs, "probs");
  return run(arguments, arrays, indices.dtype(), indptr.rows().device(), indptr.group().pool());
}

}  // namespace strata::dgs
