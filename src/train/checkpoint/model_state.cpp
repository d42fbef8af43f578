// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_state.hpp"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <span>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::train {
namespace {

at::Tensor to_host(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

/// One hash per tensor, as bytes.
std::string hashes_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::uint64_t> hashes;
  for (const nn::NamedTensor& entry : tensors) {
    const at::Tensor local = to_host(entry.tensor);
    hashes.push_back(hash_bytes(local.const_data_ptr(), local.nbytes()));
  }
  return {reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(std::uint64_t)};
}

}  // namespace

std::vector<nn::NamedTensor> buffers_of(const torch::nn::Module& model) {
  std::vector<nn::NamedTensor> buffers;
  for (const auto& item : model.named_buffers()) buffers.push_back({item.key(), item.value()});
  return buffers;
}

std::vector<nn::NamedTensor> copies_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<nn::NamedTensor> copies;
  for (const nn::NamedTensor& entry : tensors) copies.push_back({entry.name, entry.tensor.detach().clone()});
  return copies;
}

void copy_values(const std::vector<nn::NamedTensor>& to, const std::vector<nn::NamedTensor>& from) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) at::Tensor(to[i].tensor).copy_(from[i].tensor);
}

void agree_on_buffers(const torch::nn::Module& model, const comm::Communicator& communicator) {
  if (communicator.size() == 1) return;
  const c10::NoGradGuard no_grad;
  for (const nn::NamedTensor& buffer : buffers_of(model)) {
    at::Tensor local = to_host(buffer.tensor);
    if (local.is_floating_point()) {
      const at::ScalarType type = local.scalar_type();
      local = local.to(at::kDouble).contiguous();
      communicator.all_reduce(std::span(local.mutable_data_ptr<double>(), at(local.numel())));
      local = local.div(communicator.size()).to(type);
    } else {
      communicator.broadcast(local.mutable_data_ptr(), static_cast<Count>(local.nbytes()), 0);
    }
    at::Tensor(buffer.tensor).copy_(local);
  }
}

void require_equal_weights(const torch::nn::Module& model, const comm::Communicator& communicator) {
  if (communicator.size() == 1) return;
  const std::vector<nn::NamedTensor> weights = nn::weights_of(model);
  const std::vector<std::string> hashes = communicator.all_gather(hashes_of(weights));
  std::vector<int> others;
  std::string where;
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    others.push_back(static_cast<int>(rank));
    for (std::size_t i = 0; where.empty() && i < weights.size(); ++i) {
      const std::size_t offset = i * sizeof(std::uint64_t);
      if (hashes[rank].compare(offset, sizeof(std::uint64_t), hashes[0], offset, sizeof(std::uint64_t)) != 0)
        where = weights[i].name;
    }
  }
  if (others.empty()) return;
  throw Error(fmt::format("the weights of rank {} are not those of rank 0; the first to differ is \"{}\"",
                          fmt::join(others, ", "), where),
              "Memory or a device of such a rank may be faulty, or a model changes its parameters by itself. "
              "Continue from the last checkpoint with --resume.");
}

}  // namespace strata::train
