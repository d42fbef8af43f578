// SPDX-License-Identifier: Apache-2.0
#include "operators/relabel.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "operators/arguments.hpp"
#include "strata/cuda/device.hpp"
#include "strata/dgs/id_maps.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

/// Throws InputError unless all tensors are rows of ids of one type on one device.
void check_alike(const std::vector<at::Tensor>& tensors, const at::Tensor& first, const char* name) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.dim() == 1 && tensor.scalar_type() == first.scalar_type() && tensor.device() == first.device())
      continue;
    throw InputError(fmt::format("{} has {} dimensions of {} on {} beside {} on {}", name, tensor.dim(),
                                 c10::toString(tensor.scalar_type()), tensor.device().str(),
                                 c10::toString(first.scalar_type()), first.device().str()),
                     "Give rows of ids of one type on one device.");
  }
}

}  // namespace

Relabeled relabel(const std::vector<at::Tensor>& mapping, const std::vector<at::Tensor>& to_relabel) {
  if (mapping.empty()) throw InputError("there are no mapping tensors", "Give the ids to number.");
  check_alike(mapping, mapping.front(), "a mapping tensor");
  check_alike(to_relabel, mapping.front(), "a tensor to relabel");
  const Device device = device_of(mapping.front().device());
  const cuda::DeviceGuard guard(device);
  const at::Tensor ids = ids_on(mapping.size() == 1 ? mapping.front() : at::cat(mapping), device, "mapping");
  Memory memory(device);
  const Workspace workspace{.stream = current_stream(device), .allocate = memory.allocator()};
  const auto numbers = make_relabeling(span_of(ids), workspace);
  at::Tensor unique = at::empty({numbers->num_unique()}, ids.options());
  numbers->unique(unique.mutable_data_ptr());
  std::vector<at::Tensor> relabeled;
  for (const at::Tensor& tensor : to_relabel) {
    const at::Tensor asked = tensor.contiguous();
    at::Tensor out = at::empty({asked.numel()}, asked.options());
    numbers->relabel(span_of(asked), out.mutable_data_ptr());
    relabeled.push_back(std::move(out));
  }
  return {unique, relabeled};
}

}  // namespace strata::dgs
